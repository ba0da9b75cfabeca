"""Assumptions behind answers, and hazards that the answers do not cover: closed sets of codes with sentences."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from api_schemas.base import Response, named_schema
from api_schemas.choices import Holds

AssumptionCode = Annotated[
    Literal[
        "adversary_is_drawn",
        "background_is_disjoint",
        "batches_drawn_with_replacement",
        "batches_of_fixed_size",
        "bits_only",
        "candidates_half_drawn",
        "data_are_a_random_half",
        "data_are_a_random_subset",
        "direction_differs_in_every_step",
        "direction_is_common_to_all_steps",
        "direction_unknown",
        "draw_is_independent",
        "epochs_are_shuffled",
        "epsilon_pmp_is_of_the_release",
        "gradient_law_known",
        "guess_sees_a_release",
        "loss_sensitivity_bounded",
        "mean_gradient_is_normal",
        "means_of_clipped_gradients",
        "members_are_in_every_batch",
        "noise_equal_on_all_coordinates",
        "noise_is_fresh",
        "noise_is_integer",
        "one_law_of_configurations",
        "one_noisy_release",
        "one_randomizer",
        "order_is_drawn_once",
        "order_is_secret",
        "parameters_are_proved",
        "parts_are_independent",
        "points_are_clipped",
        "queries_are_independent",
        "record_is_in_independently",
        "records_were_sampled",
        "reports_are_local",
        "run_approximated",
        "sampling_is_poisson",
        "score_is_covered",
        "scores_bounded",
        "scores_move_little",
        "sensitivity_bounded",
        "sensitivity_is_stated",
        "shift_is_drawn",
        "step_approximated",
        "steps_are_independent",
        "steps_rounded_up",
        "susceptibility_bounded",
        "susceptibility_is_chi_square",
        "table_is_right",
        "trials_are_independent",
        "trials_ignore_data",
        "weights_are_exponential",
    ],
    named_schema(
        "AssumptionCode",
        "Code of the assumption. The text of the assumption may contain details of the request.",
        examples=["sensitivity_bounded"],
    ),
]
HazardCode = Annotated[
    Literal[
        "columns_may_be_exchanged",
        "delta_not_small",
        "epsilon_says_little",
        "fixed_batches_are_not_poisson",
        "gradient_accumulation_counted",
        "large_sample_rate",
        "microbatches_double_sensitivity",
        "one_point_hides_the_curve",
        "one_record_is_protected",
        "only_honest_reports",
        "poisson_sampling_assumed",
        "records_not_capped",
        "relaxed_number_alone",
        "reports_may_repeat",
        "sample_rate_inconsistent",
        "sampler_not_recorded",
        "shuffled_epochs_are_not_poisson",
        "stated_divergences_alone",
        "stated_parameters_alone",
        "tuning_not_accounted",
        "variants_are_not_private",
    ],
    named_schema("HazardCode", "Code of the hazard.", examples=["poisson_sampling_assumed"]),
]


class Assumption(Response):
    """A condition of the answers that the service cannot verify."""

    code: AssumptionCode
    text: Annotated[
        str,
        Field(
            description="The assumption in one sentence.", examples=["Every record has at most the stated sensitivity."]
        ),
    ]
    holds: Annotated[Holds, Field(description="Whether the assumption holds, according to the request.")]


class Hazard(Response):
    """A known reason why runs of this kind are less private than their parameters suggest."""

    code: HazardCode
    text: Annotated[
        str,
        Field(
            description="The hazard in one sentence.", examples=["The request does not record how batches were drawn."]
        ),
    ]


Assumptions = Annotated[
    tuple[Assumption, ...], Field(description="Conditions of the answers that the service cannot verify.")
]
Hazards = Annotated[
    tuple[Hazard, ...],
    Field(description="Known reasons why runs of this kind are less private than their parameters suggest."),
]
