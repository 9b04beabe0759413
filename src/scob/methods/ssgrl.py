"""SSGRL: each class attends to its own cells of the image, and the class features interact over a graph.

Tianshui Chen, Muxin Xu, Xiaolu Hui, Hefeng Wu, Liang Lin: Learning Semantic-Specific Graph Representation for
Multi-Label Image Recognition, ICCV 2019. Semantic decoupling: the attention of class c at a cell is a linear map of
tanh(U f * V x_c), where f is the cell and x_c the class's vector; a softmax over the cells weights their mean. Semantic
interaction: three rounds of a gated graph network over P(c' | c); a linear map and a tanh read the features after and
before it. Each class then has its own linear classifier. With partial labels it is trained by partial BCE. Ours: class
features are reduced to `hidden` dimensions by one linear map (theirs keep the backbone's 2048).
"""

from typing import ClassVar

from scob.methods.structure import Structured


class Ssgrl(Structured):
    """Partial BCE; each class attends to its own cells of the image, and class features interact over a graph."""

    name: ClassVar[str] = "ssgrl"
    title: ClassVar[str] = "SSGRL"
