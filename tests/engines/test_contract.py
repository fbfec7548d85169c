"""Which likelihoods an engine takes, according to the declarations of both."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from gpclass.engines import Engine
from gpclass.engines.contract import UnsuitableLikelihood, require, supported_likelihoods
from gpclass.inference import EP, KL, Laplace, NestedEP
from gpclass.likelihoods import Gaussian, Heaviside, Logit, MultinomialProbit, Poisson, Probit, Softmax


@dataclass(frozen=True)
class Asking(Engine):
    """An engine that calls methods of a likelihood."""

    latents: ClassVar = "any"
    asks: tuple[str, ...] = ()

    def needed(self, likelihood):
        return self.asks


@pytest.mark.parametrize(
    ("latents", "one", "several"), [("one", True, False), ("several", False, True), ("any", True, True)]
)
def test_number_of_latent_functions(latents, one, several):
    engine = type("Some", (Asking,), {"latents": latents})()
    assert (engine.serves(Probit()), engine.serves(Softmax(3))) == (one, several)
    assert engine.takes_several == several


def test_methods_that_are_needed():
    assert Asking().serves(Heaviside())
    assert Asking(("tilted_moments",)).serves(Heaviside())
    assert not Asking(("tilted_moments", "log_prob")).serves(Heaviside())


def test_the_error_names_what_is_missing_and_who_has_it():
    with pytest.raises(UnsuitableLikelihood, match="KL needs expected_log_prob, which Heaviside does not offer") as caught:
        KL().check_likelihood(Heaviside())
    assert "Logit, Probit" in str(caught.value)
    assert "Softmax" not in str(caught.value)  # not only for two classes, and KL takes one latent function
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ValueError)
    with pytest.raises(UnsuitableLikelihood, match="EP is for one latent function per datum, but Softmax has 3"):
        EP().check_likelihood(Softmax(3))
    with pytest.raises(TypeError, match=r"write Probit\(\) instead of Probit"):
        EP().check_likelihood(Probit)
    with pytest.raises(UnsuitableLikelihood, match=r"A plot needs log_prob, which Heaviside does not offer"):
        require(Heaviside(), ("log_prob",), "A plot")


def test_likelihoods_of_the_same_targets_come_first():
    assert supported_likelihoods(Laplace(), Heaviside()) == ["Logit", "Probit", "Softmax"]
    assert supported_likelihoods(NestedEP(), Softmax(4)) == ["MultinomialProbit"]
    assert "Gaussian" in supported_likelihoods(KL(), Gaussian())
    assert supported_likelihoods(KL(), Poisson()) == ["Poisson"]
    # no engine of one latent function takes four classes, so those of two are used
    assert supported_likelihoods(EP(), MultinomialProbit(4)) == ["Logit", "Probit", "Heaviside"]


def test_evidences_compare_unless_an_engine_says_otherwise():
    assert EP().evidence_is_comparable(Logit())
    assert not type("Drawing", (Asking,), {"draws": True})().evidence_is_comparable(Logit())
