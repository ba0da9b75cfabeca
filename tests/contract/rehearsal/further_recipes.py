"""Further recipes: a question, an engine, a resource."""

from __future__ import annotations

from typing import Final

from tests.contract.rehearsal.recipes import (
    ASKED,
    DRAWN,
    MEANINGS,
    MECHANISM,
    OPTIONS,
    PAGES,
    RESOURCES,
    SAMPLER,
    THREAT_MODEL,
    Place,
    Recipe,
)

LAST_OF_BOTH: Final = "    | UnlearningGuaranteeQuestion,\n    named_schema("
LAST_NUMBER: Final = '    | DeletionCapacityQuestion\n)\n"""The questions'
QUESTION: Final = Recipe(
    "question",
    (
        Place(
            "api_schemas/questions.py",
            ((LAST_OF_BOTH, "    | RehearsedQuestion\n"), (LAST_NUMBER, "    | RehearsedQuestion\n")),
            f"{ASKED}:test_every_number_question_has_a_reading",
        ),
        Place(
            "api_schemas/answers.py",
            (
                ("    UnlearningGuaranteeQuestion,\n)\n\nTypeT", "    RehearsedQuestion,\n"),
                ('            "advantage",\n', '            "rehearsed_question",\n'),
                ("            | AdvantageQuestion\n", "            | RehearsedQuestion\n"),
            ),
            f"{ASKED}:test_every_question_has_an_answer_type",
            ("rehearsed_question",),
        ),
        Place(
            "service/resources/readings.py",
            (
                ("    ReconstructionQuestion,\n)\n", "    RehearsedQuestion,\n"),
                (
                    "    AdvantageQuestion: lambda",
                    "    RehearsedQuestion: lambda curve, _: membership.advantage(curve),\n",
                ),
            ),
            f"{ASKED}:test_every_number_question_has_a_reading",
        ),
        Place(
            "service/resources/estimates.py",
            (
                ("    QuestionSpec,\n    ReconstructionQuestion,", "    RehearsedQuestion,\n"),
                (
                    "        case DeltaQuestion() | AdvantageQuestion():",
                    "        case RehearsedQuestion():\n            return 1.0\n",
                ),
            ),
            f"{ASKED}:test_every_question_has_a_cost",
            ("rehearsed_question",),
        ),
        Place(
            "api_schemas/claims.py",
            (('    "advantage": Range(),', '    "rehearsed_question": Range(),\n'),),
            f"{ASKED}:test_every_question_has_a_range",
        ),
        Place(
            "docs/guide/requests.md",
            (
                (
                    "| How much does an accusation gain over the prior?",
                    '| How much in a rehearsal? | `{"type": "rehearsed_question"}` |\n',
                ),
            ),
            f"{PAGES}:test_tables_of_questions_and_mechanisms_are_complete",
        ),
        Place(
            "tests/resources/request_space.py",
            (('    "advantage": lambda _: {},', '    "rehearsed_question": lambda _: {},\n'),),
            DRAWN,
        ),
        Place(
            "tests/rendering/test_meanings.py",
            (('    {"type": "advantage"},\n', '    {"type": "rehearsed_question"},\n'),),
            MEANINGS,
        ),
    ),
    (
        (
            "api_schemas/questions.py",
            "QuestionSpec = Annotated[",
            'class RehearsedQuestion(Request):\n    """What a rehearsal asks."""\n\n'
            '    type: Literal["rehearsed_question"]\n    direction: Direction = "add"\n\n\n',
        ),
    ),
)

ENGINE: Final = Recipe(
    "engine",
    (
        Place(
            "service/privacy/composition/planning/engines.py",
            (('"""Engines by their names on the wire', 'ENGINES["rehearsed"] = ENGINES["clt"]\n'),),
            f"{OPTIONS}:test_schemas_and_core_have_same_methods_evidence_and_verdicts",
        ),
        Place(
            "api_schemas/choices.py",
            (("\n]\nEngineName", ', "rehearsed"'),),
            f"{OPTIONS}:test_schemas_and_core_have_same_methods_evidence_and_verdicts",
        ),
        Place(
            "docs/guide/answers.md",
            (("`edgeworth` (with `order`)", "`rehearsed`, "),),
            f"{PAGES}:test_guide_names_every_engine",
        ),
    ),
)

RESOURCE: Final = Recipe(
    "resource",
    (
        Place(
            "service/resources/catalogue.py",
            (('        "imports":', '        "rehearsal": "rehearsal:REHEARSAL",\n'),),
            f"{RESOURCES}:test_catalogue_lists_every_resource",
        ),
        Place(
            "docs/guide/reference.md",
            (("| `POST /v1/imports` |", "| `POST /v1/rehearsal` | rehearses |\n"),),
            f"{RESOURCES}:test_guide_lists_every_resource",
            ("rehearsal",),
        ),
    ),
    (
        (
            "service/resources/rehearsal.py",
            "",
            '"""A resource of a rehearsal."""\n\nfrom dataclasses import replace\nfrom typing import Final\n\n'
            "from service.resources.abstract import Computation\nfrom service.resources.bounds import BOUNDS\n\n"
            "_KNOWN = {name: getattr(BOUNDS, name) for name in BOUNDS.__dataclass_fields__}\n"
            '_NAMED = {"name": "rehearsal", "path": "/v1/rehearsal"}\n'
            "REHEARSAL: Final = Computation(**(_KNOWN | _NAMED))\n",
        ),
    ),
)

RECIPES: Final = (MECHANISM, SAMPLER, THREAT_MODEL, QUESTION, ENGINE, RESOURCE)
