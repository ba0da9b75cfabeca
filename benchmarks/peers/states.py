"""States written by other libraries, for the tests of the importers.

`python -m benchmarks.peers.states FOLDER` writes one file for each installed library, with its states as JSON and its
own answers about them. The tests read the files, so that they need none of the libraries.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

DELTA: Final = 1e-5


def opacus() -> dict[str, Any]:
    """Return states of Opacus: accountants that were stepped by hand, and accountants of real training loops."""
    import warnings

    import torch
    from opacus import PrivacyEngine
    from opacus.accountants import GaussianAccountant, PRVAccountant, RDPAccountant

    warnings.simplefilter("ignore")
    states: dict[str, Any] = {}
    for name, accountant in {"prv": PRVAccountant(), "rdp": RDPAccountant(), "gdp": GaussianAccountant()}.items():
        for _ in range(1000):
            accountant.step(noise_multiplier=1.0, sample_rate=0.01)
        states[name] = {"content": accountant.state_dict(), "epsilon": accountant.get_epsilon(delta=DELTA)}
    scheduled = PRVAccountant()
    for noise, steps in ((1.2, 200), (1.0, 200), (0.8, 100)):
        for _ in range(steps):
            scheduled.step(noise_multiplier=noise, sample_rate=0.01)
    states["schedule"] = {"content": scheduled.state_dict(), "epsilon": scheduled.get_epsilon(delta=DELTA)}

    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(256, 4), torch.randn(256, 1))
    for name, sampled in {"trained": True, "trained_on_shuffled_epochs": False}.items():
        engine = PrivacyEngine(accountant="prv")
        model = torch.nn.Linear(4, 1)
        model, optimizer, loader = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=torch.utils.data.DataLoader(data, batch_size=32, shuffle=True),
            noise_multiplier=1.1,
            max_grad_norm=1.0,
            poisson_sampling=sampled,
        )
        for _ in range(3):
            for inputs, targets in loader:
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(model(inputs), targets).backward()
                optimizer.step()
        states[name] = {"content": engine.accountant.state_dict(), "epsilon": engine.get_epsilon(DELTA)}
    return states


def riskcal() -> dict[str, Any]:
    """Return states of riskcal: its accountant, and arguments of its functions."""
    from riskcal.accountants import CTDAccountant
    from riskcal.calibration.dpsgd import get_advantage_for_dpsgd, get_beta_for_dpsgd

    accountant = CTDAccountant()
    for noise, steps in ((1.0, 300), (0.9, 100)):
        for _ in range(steps):
            accountant.step(noise_multiplier=noise, sample_rate=0.01)
    arguments = {"noise_multiplier": 1.0, "sample_rate": 0.01, "num_steps": 1000}
    return {
        "accountant": {"content": accountant.state_dict(), "advantage": float(accountant.get_advantage())},
        "arguments": {
            "content": {**arguments, "grid_step": 1e-4},
            "advantage": float(get_advantage_for_dpsgd(**arguments, grid_step=1e-4)),
        },
        "arguments_of_beta": {
            "content": {**arguments, "alpha": 0.01},
            "type_two_error": float(get_beta_for_dpsgd(**arguments, alpha=0.01)),
        },
    }


def dp_accounting() -> dict[str, Any]:
    """Return states of dp-accounting: an event of every class, as a list and as an object."""
    import dp_accounting as library
    from dp_accounting import dp_event as events
    from dp_accounting.pld import PLDAccountant

    gaussian = events.GaussianDpEvent(1.0)
    step = events.PoissonSampledDpEvent(0.01, gaussian)
    builder = library.DpEventBuilder()
    for noise in (1.2, 1.0, 1.0, 0.8):
        builder.compose(events.PoissonSampledDpEvent(0.01, events.GaussianDpEvent(noise)), 100)
    made = {
        "gaussian": events.GaussianDpEvent(4.0),
        "laplace": events.LaplaceDpEvent(2.0),
        "sampled": step,
        "run": events.SelfComposedDpEvent(step, 1000),
        "built": builder.build(),
        "composed": events.ComposedDpEvent(
            [events.SelfComposedDpEvent(step, 100), events.NoOpDpEvent(), events.LaplaceDpEvent(10.0)]
        ),
        "mixture": events.SelfComposedDpEvent(
            events.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0, 2.0], [0.9, 0.09, 0.01]), 50
        ),
        "randomized_response": events.RandomizedResponseDpEvent(0.5, 2),
        "many_buckets": events.RandomizedResponseDpEvent(0.5, 10),
        "discrete_laplace": events.DiscreteLaplaceDpEvent(0.5, 1),
        "discrete_laplace_twice_as_far": events.DiscreteLaplaceDpEvent(0.5, 2),
        "fixed_without_replacement": events.SelfComposedDpEvent(
            events.SampledWithoutReplacementDpEvent(48_000, 480, gaussian), 1000
        ),
        "fixed_with_replacement": events.SampledWithReplacementDpEvent(48_000, 480, gaussian),
        "nothing": events.NoOpDpEvent(),
        "not_private": events.NonPrivateDpEvent(),
        "unsupported": events.UnsupportedDpEvent(),
        "zcdp": events.ZCDpEvent(0.5),
        "truncated": events.TruncatedSubsampledGaussianDpEvent(48_000, 0.01, 500, 1.0),
        "tree": events.SingleEpochTreeAggregationDpEvent(4.0, 7),
        "best_of_several": events.RepeatAndSelectDpEvent(gaussian, 10.0, 1.0),
    }
    states: dict[str, Any] = {}
    for name, event in made.items():
        named = event.to_named_tuple()
        states[name] = {"content": _as_object(named), "listed": json.loads(json.dumps(named))}
        for relation in library.NeighboringRelation:
            accountant = PLDAccountant(relation)
            if accountant.supports(event):
                states[name] |= {"relation": relation.name, "epsilon": accountant.compose(event).get_epsilon(DELTA)}
                break
    return states


def _as_object(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return {name: _as_object(inner) for name, inner in value._asdict().items()}
    return [_as_object(inner) for inner in value] if isinstance(value, list | tuple) else value


def jax_privacy() -> dict[str, Any]:
    """Return states of JAX Privacy: arguments of the functions that build events, and the resulting events."""
    from jax_privacy.experimental import accounting

    called: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "dpsgd": (accounting.dpsgd_event, {"sampling_prob": 0.01}),
        "zcdp": (accounting.dpsgd_event, {"sampling_prob": 0.01, "use_zcdp": True}),
        "fixed": (accounting.fixed_dpsgd_event, {"dataset_size": 48_000, "batch_size": 480}),
        "replaced": (accounting.fixed_dpsgd_event, {"dataset_size": 48_000, "batch_size": 480, "replace": True}),
        "banded": (accounting.amplified_bandmf_event, {"sampling_prob": 0.01, "num_bands": 7}),
        "truncated": (
            accounting.truncated_dpsgd_event,
            {"sampling_prob": 0.01, "num_examples": 48_000, "truncated_batch_size": 500},
        ),
    }
    states: dict[str, Any] = {}
    for name, (make, more) in called.items():
        arguments = {"noise_multiplier": 1.0, "iterations": 1000, **more}
        if not arguments.keys() <= inspect.signature(make).parameters.keys():
            continue  # Of a future version.
        states[name] = {"content": arguments, "event": _as_object(make(**arguments).to_named_tuple())}
    return states


def tensorflow_privacy() -> dict[str, Any]:
    """Return states of TensorFlow Privacy: arguments of its privacy statement, and the text of the statement.

    The file that writes the statement needs no TensorFlow.
    """
    folder = importlib.util.find_spec("tensorflow_privacy")
    if folder is None or not folder.submodule_search_locations:
        raise ImportError("tensorflow_privacy")
    file = Path(folder.submodule_search_locations[0], "privacy", "analysis", "compute_dp_sgd_privacy_lib.py")
    specification = importlib.util.spec_from_file_location("compute_dp_sgd_privacy_lib", file)
    if specification is None or specification.loader is None:
        raise ImportError(str(file))
    library = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(library)
    common = {
        "number_of_examples": 60_000,
        "batch_size": 256,
        "num_epochs": 15,
        "noise_multiplier": 1.1,
        "delta": DELTA,
    }
    called = {
        "plain": {"used_microbatching": False},
        "microbatches": {},
        "users": {"used_microbatching": False, "max_examples_per_user": 4},
        "fractional": {"used_microbatching": False, "num_epochs": 0.3},
    }
    states: dict[str, Any] = {
        name: {"content": common | more, "statement": library.compute_dp_sgd_privacy_statement(**(common | more))}
        for name, more in called.items()
    }
    older = {"n": 60_000, "batch_size": 256, "noise_multiplier": 1.1, "epochs": 15, "delta": DELTA}
    epsilon, _ = library.compute_dp_sgd_privacy(**older)
    return {**states, "deprecated": {"content": older, "epsilon": float(epsilon)}}


LIBRARIES: Final[Mapping[str, tuple[str, Callable[[], dict[str, Any]]]]] = {
    "opacus": ("opacus", opacus),
    "dp_accounting": ("dp-accounting", dp_accounting),
    "tf_privacy": ("tensorflow-privacy", tensorflow_privacy),
    "jax_privacy": ("jax-privacy", jax_privacy),
    "riskcal": ("riskcal", riskcal),
}


def main(folder: Path) -> None:
    """Write the states of the installed peer libraries into the folder."""
    for name, (distribution, states) in LIBRARIES.items():
        try:
            made = {"library": f"{distribution} {version(distribution)}", "states": states()}
        except ImportError as error:
            print(f"{name}: not installed ({error})", file=sys.stderr)
            continue
        (folder / f"{name}.json").write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
