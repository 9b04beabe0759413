"""`python -m scob`, which `accelerate launch -m scob` needs."""

from scob.cli import main

if __name__ == "__main__":
    main()
