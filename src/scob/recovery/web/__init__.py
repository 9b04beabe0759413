"""The web page where a person accepts or rejects recovered labels: `store` keeps, `server` shows."""
