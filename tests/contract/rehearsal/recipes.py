"""The recipes of CONTRIBUTING.md, each followed for a dummy: the files to edit, and the test that fails without each
edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Place:
    """Lines that a recipe adds to a file.

    `lines` holds (anchor, text) pairs. A text goes before its anchor, which occurs once in the file. `check` is the
    test, as `module:function`, that fails without the lines. `arguments` are the arguments of the test.
    """

    file: str
    lines: tuple[tuple[str, str], ...]
    check: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Recipe:
    """Recipe to add something, by edits of files (places).

    `given` lists what the places import, and cannot be left out: file, anchor ("" for a new file) and text.
    """

    what: str
    places: tuple[Place, ...]
    given: tuple[tuple[str, str, str], ...] = ()


MATCH: Final = "tests.contract.test_mechanisms_match"
ASKED: Final = "tests.contract.test_questions_match"
SAMPLERS: Final = "tests.contract.test_samplers_match"
OPTIONS: Final = "tests.contract.test_options"
RESOURCES: Final = "tests.contract.test_resources"
PAGES: Final = "tests.contract.test_pages"
DRAWN: Final = "tests.resources.test_whole_space:test_every_type_of_the_catalogues_is_drawn"
MEANINGS: Final = "tests.rendering.test_meanings:test_every_question_and_attacker_is_covered"

MECHANISM: Final = Recipe(
    "mechanism",
    (
        Place(
            "service/privacy/mechanisms/catalogue.py",
            (
                ("\nMECHANISMS: Final", "from service.privacy.mechanisms.rehearsed import Rehearsed\n"),
                ("            Mixture,\n", "            Rehearsed,\n"),
            ),
            f"{MATCH}:test_schemas_and_core_have_same_types",
        ),
        Place(
            "api_schemas/mechanisms.py",
            (
                (
                    "class PureDpMechanism",
                    'class RehearsedMechanism(Request):\n    """A release."""\n\n    type: Literal["rehearsed"]\n'
                    "    mu: Mu\n\n\n",
                ),
                ("    | PureDpMechanism\n", "    | RehearsedMechanism\n"),
            ),
            f"{MATCH}:test_schemas_and_core_have_same_types",
        ),
        Place(
            "tests/privacy/cases.py",
            (('    Case("pure_dp_0"', '    Case("rehearsed", {"type": "rehearsed", "mu": 1.0}),\n'),),
            f"{MATCH}:test_mechanism_states_its_assumptions",
            ("rehearsed",),
        ),
        Place(
            "service/privacy/calibration/monotone.py",
            (('    ("pure_dp", "epsilon")', '    ("rehearsed", "mu"): STATED,\n'),),
            "tests.resources.test_calibration_directions:test_every_number_of_mechanism_has_theorem_or_is_exempt",
            (("rehearsed", "mu"),),
        ),
        Place(
            "docs/guide/requests.md",
            (("| the same release many times", '| a rehearsal | `{"type": "rehearsed", "mu": 0.5}` |\n'),),
            f"{PAGES}:test_tables_of_questions_and_mechanisms_are_complete",
        ),
        Place(
            "tests/resources/request_space.py",
            (('    "pure_dp": lambda', '    "rehearsed": lambda random: {"type": "rehearsed", "mu": mu(random)},\n'),),
            DRAWN,
        ),
    ),
    (
        (
            "service/privacy/mechanisms/rehearsed.py",
            "",
            '"""A release of a rehearsal."""\n\nfrom __future__ import annotations\n\n'
            "from dataclasses import dataclass\nfrom typing import Annotated, ClassVar, final\n\n"
            "from service.privacy.mechanisms.abstract import AbstractStep\n"
            "from service.privacy.mechanisms.caveats import PARAMETERS_ARE_PROVED, Premise\n"
            "from service.privacy.mechanisms.domain import MU, check_fields\n"
            "from service.privacy.mechanisms.gdp import Gdp\n\n\n"
            "@final\n@dataclass(frozen=True, slots=True, kw_only=True)\nclass Rehearsed(AbstractStep):\n"
            '    """A release that is mu-GDP."""\n\n    type: ClassVar[str] = "rehearsed"\n'
            "    mu: Annotated[float, MU]\n\n    def __post_init__(self):\n        check_fields(self)\n\n"
            "    @property\n    def premises(self) -> tuple[Premise, ...]:\n        return (PARAMETERS_ARE_PROVED,)\n\n"
            "    def under(self, neighbours):\n        return Gdp(mu=self.mu).under(neighbours)\n\n"
            "    def curves(self):\n        return Gdp(mu=self.mu).curves()\n",
        ),
    ),
)

SAMPLER: Final = Recipe(
    "sampler",
    (
        Place(
            "service/privacy/mechanisms/dpsgd_caveats.py",
            (('"fixed_without_replacement", "fixed_with_replacement", "shuffled"]', '"rehearsed_batches", '),),
            f"{SAMPLERS}:test_schemas_and_core_have_same_samplers",
        ),
        Place(
            "service/privacy/mechanisms/dpsgd_caveats.py",
            (
                (
                    '    "fixed_without_replacement": SamplerCaveats(',
                    '    "rehearsed_batches": SamplerCaveats((), _TRAPS),\n',
                ),
            ),
            f"{SAMPLERS}:test_every_sampler_states_its_assumptions",
        ),
        Place(
            "service/privacy/mechanisms/dpsgd.py",
            (
                (
                    '            case "shuffled":\n                return Gaussian(',
                    '            case "rehearsed_batches":\n                return _sampled(noise, rate)\n',
                ),
            ),
            f"{SAMPLERS}:test_every_sampler_has_elementary_steps",
            ("rehearsed_batches",),
        ),
        Place(
            "api_schemas/training_runs.py",
            (('"fixed_without_replacement", "fixed_with_replacement", "shuffled"]', '"rehearsed_batches", '),),
            f"{SAMPLERS}:test_schemas_and_core_have_same_samplers",
        ),
        Place(
            "service/rendering/sentences/title.py",
            (('        "fixed_without_replacement": (', '        "rehearsed_batches": ("", ""),\n'),),
            f"{SAMPLERS}:test_every_sampler_has_a_title",
            ("rehearsed_batches",),
        ),
        Place(
            "docs/guide/samplers.md",
            (("| `fixed_without_replacement` | 480", "| `rehearsed_batches` | any | any | 1 |\n"),),
            f"{SAMPLERS}:test_guide_names_every_sampler",
        ),
        Place(
            "service/web/explorer/index.html",
            (('          <option value="noisy_sgd">', '          <option value="rehearsed_batches">Any</option>\n'),),
            f"{SAMPLERS}:test_explorer_page_offers_every_sampler",
            ("index.html",),
        ),
        Place(
            "service/web/explorer/form.js",
            (('  noisy_sgd: "Every step', '  rehearsed_batches: "Any.",\n'),),
            f"{SAMPLERS}:test_explorer_page_offers_every_sampler",
            ("form.js",),
        ),
    ),
)

THREAT_MODEL: Final = Recipe(
    "threat model",
    (
        Place(
            "service/privacy/threat_models/catalogue.py",
            (
                (
                    '        "mixture": "mixture:AdversaryMixture"',
                    '        "rehearsed_attacker": "rehearsed:Rehearsed",\n',
                ),
            ),
            f"{MATCH}:test_schemas_and_core_have_same_threat_models",
        ),
        Place(
            "api_schemas/threat_models.py",
            (
                (
                    "class AdversaryComponent",
                    'class RehearsedThreatModel(Request):\n    """An attacker."""\n\n'
                    '    type: Literal["rehearsed_attacker"]\n\n\n',
                ),
                ("PracticalThreatModel | MixtureThreatModel,", "RehearsedThreatModel | "),
            ),
            f"{MATCH}:test_schemas_and_core_have_same_threat_models",
        ),
        Place(
            "tests/privacy/relaxed_cases.py",
            (
                (
                    "FAMILIES: Final",
                    "def _rehearsed(random: Generator, questions: int) -> RelaxedCase:\n"
                    "    from service.privacy.threat_models.rehearsed import Rehearsed\n\n"
                    "    return replace(_glrt(random, questions), model=Rehearsed())\n\n\n",
                ),
                ('    "practical": _practical,\n', '    "rehearsed": _rehearsed,\n'),
            ),
            f"{MATCH}:test_every_threat_model_has_cases",
        ),
        Place(
            "docs/guide/requests.md",
            (('`{"type": "membership"}` is', '`{"type": "rehearsed_attacker"}` is an attacker.\n\n'),),
            f"{PAGES}:test_section_of_attackers_is_complete",
        ),
        Place(
            "tests/resources/request_space.py",
            (('    lambda _: {"type": "membership"}', '    lambda _: {"type": "rehearsed_attacker"},\n'),),
            DRAWN,
        ),
        Place(
            "tests/rendering/test_meanings.py",
            (('    {"type": "membership"},\n', '    {"type": "rehearsed_attacker"},\n'),),
            MEANINGS,
        ),
    ),
    (
        (
            "service/privacy/threat_models/rehearsed.py",
            "",
            '"""An attacker of a rehearsal."""\n\nfrom __future__ import annotations\n\n'
            "from dataclasses import dataclass\nfrom typing import ClassVar, final\n\n"
            "from service.privacy.threat_models.abstract import AbstractThreatModel\n"
            "from service.privacy.threat_models.worst_case import WorstCase\n\n\n"
            "@final\n@dataclass(frozen=True, slots=True)\nclass Rehearsed(AbstractThreatModel):\n"
            '    """The worst case under another name."""\n\n    type: ClassVar[str] = "rehearsed_attacker"\n\n'
            "    def plan(self, mechanism, *how):\n        return WorstCase().plan(mechanism, *how)\n\n"
            "    def premises(self, mechanism):\n        return ()\n",
        ),
    ),
)
