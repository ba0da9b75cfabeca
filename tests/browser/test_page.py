"""User actions on the page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Watched, wait_for_answer
from tests.timeouts import TEST_TIMEOUT

OPACUS = {"history": [[1.1, 0.004, 3000], [0.9, 0.004, 1000]], "mechanism": "prv"}


def clipboard(page: Page) -> str:
    return str(page.evaluate("navigator.clipboard.readText()"))


def copied(page: Page, button: str) -> str:
    page.get_by_role("button", name=button, exact=True).click()
    expect(page.locator("#copied")).to_contain_text("Copied")
    return clipboard(page)


def pictures(page: Page) -> list[str]:
    return page.locator("figure:visible").evaluate_all("each => each.map(one => one.id)")


def chart_path(page: Page, name: str) -> str:
    return page.locator(f"#chart-{name} svg").inner_html()


def change(page: Page, field: str, value: str) -> str:
    page.fill(f"#{field}", value)
    page.press(f"#{field}", "Enter")
    return wait_for_answer(page)


def test_first_view_answers_in_five_sentences(page: Page) -> None:
    response = wait_for_answer(page).splitlines()
    assert len(response) == 5
    assert "(1.83, 1e-5)-differentially private" in response[0]
    assert "wrongly accuses 0.1 %" in response[1]
    assert "0.407 %" in response[2]
    assert "58.1 %" in response[3]
    assert "4 assumptions" in response[4]
    assert "roc" in {each.removeprefix("chart-") for each in pictures(page)}


def test_links_within_page_keep_typed_values(page: Page) -> None:
    expect(page.locator("#short")).to_contain_text("This is an example")
    response = change(page, "noise", "1.31")
    expect(page.locator("#short")).not_to_contain_text("This is an example")
    page.get_by_role("link", name="the assumptions").click()
    assert page.evaluate("document.activeElement.id") == "assumptions-title"
    expect(page.locator("#noise")).to_have_value("1.31")
    assert wait_for_answer(page) == response
    expect(page.locator("#problem")).to_be_hidden()


def test_changed_run_updates_words_chart_and_verdict(page: Page) -> None:
    before, picture = page.locator("#sentences").inner_text(), chart_path(page, "roc")
    assert page.locator(".verdict").count() == 0
    change(page, "limit", "2")
    expect(page.locator("#short .verdict.good")).to_contain_text("kept")
    assert change(page, "noise", "0.7") != before
    assert chart_path(page, "roc") != picture
    expect(page.locator("#short .verdict.bad")).to_be_visible()
    page.get_by_role("button", name="Use it").click()
    wait_for_answer(page)
    expect(page.locator("#noise")).to_have_value("0.959102")
    expect(page.locator("#short .verdict.good")).to_be_visible()


def test_every_sampler_and_form_of_a_run_has_an_answer(page: Page, watched: Watched) -> None:
    watched.expected = (
        "504",
    )  # Charts of shuffled runs may reach the time limit on a busy machine; the page reports it.
    page.select_option("#length-by", "steps")
    for field, number in (("noise", "8"), ("batch", "20"), ("dataset", "1000"), ("steps", "100")):
        page.fill(f"#{field}", number)
    for sampling in ("shuffled", "fixed_without_replacement", "fixed_with_replacement", "gaussian", "laplace"):
        page.select_option("#sampling", sampling)
        page.get_by_role("button", name="Answer", exact=True).click()
        assert "differentially private" in wait_for_answer(page), sampling
        expect(page.locator("#problem")).to_be_hidden()
    page.select_option("#sampling", "shuffled")
    page.select_option("#length-by", "epochs")
    assert "attacks may not attain" in change(page, "epochs", "2")


def test_slider_changes_number_and_chart(page: Page) -> None:
    picture = chart_path(page, "roc")
    page.locator("#noise-slider").evaluate(
        "each => { each.value = 30; each.dispatchEvent(new Event('input', {bubbles: true})) }"
    )
    expect(page.locator("#noise")).to_have_value("2")
    page.get_by_role("button", name="Answer", exact=True).click()
    wait_for_answer(page)
    assert chart_path(page, "roc") != picture


def test_opacus_state_can_be_pasted(page: Page) -> None:
    page.select_option("#source", "paste")
    page.fill("#paste", json.dumps(OPACUS))
    page.get_by_role("button", name="Answer", exact=True).click()
    assert "differentially private" in wait_for_answer(page)
    assert "Recognised as the state of Opacus" in page.locator("#imported").inner_text()
    expect(page.locator("#problem")).to_be_hidden()


def legend(page: Page) -> str:
    return page.locator("#chart-roc svg").text_content() or ""


def test_every_attacker_is_drawn_once_parameters_are_known(page: Page) -> None:
    sentence = page.locator("#chart-roc .beside")
    assert [name in sentence.inner_text() for name in ("GLRT", "GMIP", "PMP")] == [True] * 3
    sentence.get_by_role("button", name="enter the number of coordinates of the model.").click()
    expect(page.locator("#dimension")).to_be_focused()
    page.select_option("#sampling", "gaussian")
    page.fill("#noise", "2")
    page.fill("#epsilon-pmp", "0.4")
    change(page, "dimension", "30")
    drawn_now = legend(page)
    assert all(name in drawn_now for name in ("Worst case, a record added", "GLRT", "Practical (PMP)", "replaced"))
    assert "GLRT" not in sentence.inner_text()
    assert "GMIP" in sentence.inner_text()
    card = copied(page, "Copy for a model card")
    assert "### Attacker: direction unknown (GLRT)" in card
    assert "### Attacker: candidates known (PMP)" in card
    page.get_by_role("button", name="its curve is known only for mean gradients with noise.").click()
    expect(page.locator("#sampling")).to_be_focused()
    page.select_option("#sampling", "noisy_sgd")
    page.fill("#batch", "400")
    page.fill("#dataset", "400")
    assert "differentially private" in change(page, "steps", "1")
    assert "Membership, data unknown" in legend(page)
    expect(page.locator("#dimension")).to_be_hidden()
    change(page, "limit", "2")
    page.get_by_role("button", name="Use it").click()
    wait_for_answer(page)
    expect(page.locator("#short .verdict.good")).to_be_visible()


def test_two_runs_are_compared(page: Page) -> None:
    page.get_by_role("button", name="Compare with another run").click()
    wait_for_answer(page)
    change(page, "noise", "1.3")
    response = page.locator("#comparison").inner_text()
    assert "run 2 is at least as hard to attack as run 1" in response
    assert "(least)" in response
    page.fill("#name", "more noise")
    page.press("#name", "Enter")
    wait_for_answer(page)
    assert "more noise is at least as hard to attack as run 1" in page.locator("#comparison").inner_text()
    page.get_by_role("button", name="Remove more noise").click()
    wait_for_answer(page)
    expect(page.locator("#compare")).to_be_hidden()


def test_at_most_four_runs_are_compared(page: Page) -> None:
    for noise in ("1.2", "1.4", "1.6"):
        page.get_by_role("button", name="Compare with another run").click()
        wait_for_answer(page)
        change(page, "noise", noise)
    expect(page.locator("#add-run")).to_be_hidden()
    expect(page.locator("#problem")).to_be_hidden()
    expect(page.locator("#comparison thead th")).to_have_count(5)


def test_link_restores_the_form(page: Page, watched: Watched) -> None:
    page.select_option("#sampling", "fixed_without_replacement")
    response = change(page, "noise", "1.7")
    page.locator("#attest-noise_is_fresh").check()
    response = wait_for_answer(page)
    link = copied(page, "Copy a link to this form")
    other = page.context.new_page()
    other.goto(link)
    assert wait_for_answer(other) == response
    expect(other.locator("#noise")).to_have_value("1.7")
    expect(other.locator("#attest-noise_is_fresh")).to_be_checked()
    other.reload()
    assert wait_for_answer(other) == response


@pytest.mark.parametrize(
    ("fragment", "words"),
    [
        ("#0:" + quote(json.dumps({"runs": [{"noise": "1.5", "old": 1}], "gone": {}})), "older version"),
        ("#1:" + quote(json.dumps({"runs": [{"noise": "1.5"}]})), "older version"),
        ("#9:" + quote(json.dumps({"runs": [{"noise": "1.5"}]})), "newer version"),
        ("#2:%7B%22runs", "damaged"),
        ("#2:null", ""),
        (
            "#2:" + quote(json.dumps({"runs": [{"sampling": "no such", "source": []}], "active": 7, "attested": [1]})),
            "",
        ),
        ("#somewhere", "not a link of this page"),
    ],
)
def test_malformed_links_are_read_as_far_as_possible(page: Page, address: str, fragment: str, words: str) -> None:
    other = page.context.new_page()
    other.goto(address + "/" + fragment)
    assert "differentially private" in wait_for_answer(other)
    assert words in other.locator("#problem").inner_text()
    if "1.5" in fragment:
        expect(other.locator("#noise")).to_have_value("1.5")


def output_of(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=TEST_TIMEOUT).stdout


def test_copied_command_and_script_give_same_result(page: Page) -> None:
    digest = page.locator("#engine").inner_text().split("result ")[1]
    command = copied(page, "as curl")
    answer = subprocess.run(
        ["bash", "-c", command], check=True, capture_output=True, text=True, timeout=TEST_TIMEOUT
    ).stdout
    assert json.loads(answer)["digest"] == digest
    script = copied(page, "as Python")
    sentence = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=TEST_TIMEOUT
    ).stdout
    assert sentence.strip() == json.loads(answer)["statement"].strip()


def test_model_card_text_takes_two_clicks(page: Page) -> None:
    card = copied(page, "Copy for a model card")
    assert card.startswith("## Privacy")
    assert "(1.83, 1e-05)-differentially private" in card
    metrics = json.loads(copied(page, "as MLflow"))["metrics"]
    assert metrics["dp.epsilon"] == pytest.approx(1.8282366665)


SLOWLY = """() => {
  const at_once = fetch;
  window.fetch = (...asked) => new Promise((go) => setTimeout(() => go(at_once(...asked)), 800));
}"""


def test_copy_message_is_cleared_before_next_copy(page: Page) -> None:
    copied(page, "Copy for a model card")
    page.evaluate(SLOWLY)
    assert json.loads(copied(page, "as MLflow"))["metrics"]


def test_later_of_two_pending_copies_wins(page: Page) -> None:
    page.evaluate(SLOWLY)
    with page.expect_response("**/v1/assessments") as earlier:
        page.get_by_role("button", name="Copy for a model card", exact=True).click()
        assert copied(page, "Copy a link to this form").startswith(page.url.split("#")[0])
    earlier.value.finished()
    page.wait_for_timeout(500)  # Sufficient for a copy.
    assert clipboard(page).startswith(page.url.split("#")[0])


def test_report_is_saved_and_printed(page: Page, browser: Browser, artifacts: Path) -> None:
    page.get_by_text("For the report").click()
    page.fill("#subject", "Digits <v2>")
    change(page, "date", "2026-11-24")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save the report").click()
    assert saved.value.suggested_filename == "privacy-report-Digits-v2-2026-11-24.html"
    path = artifacts / "privacy-report.html"
    saved.value.save_as(path)
    other = browser.new_page()
    other.goto(path.as_uri())
    assert "Digits &lt;v2&gt;" in other.content()
    other.pdf(path=artifacts / "privacy-report.pdf", format="A4")
    other.close()
    assert (artifacts / "privacy-report.pdf").stat().st_size > 10_000


def test_assumptions_can_be_attested(page: Page) -> None:
    for box in page.locator("#assumptions input[type=checkbox]").all():
        box.check()
        wait_for_answer(page)
    assert "all 4 assumptions behind them are attested" in page.locator("#sentences").inner_text()
    page.locator("#assumptions summary").first.click()
    page.get_by_label("Attested by").first.fill("ML platform")
    page.get_by_label("Attested by").first.press("Tab")
    wait_for_answer(page)
    assert "ML platform" in copied(page, "Copy for a model card")
    page.get_by_role("button", name="It does not hold").first.click()
    words = wait_for_answer(page) + page.locator("#short").inner_text()
    assert "at most" not in words
    assert "differentially private" not in words
    expect(page.locator("figure:visible")).to_have_count(0)


def test_typed_text_survives_arriving_answer(page: Page) -> None:
    page.locator("#assumptions summary").first.click()
    by = page.get_by_label("Attested by").first
    by.fill("ML plat")
    page.evaluate("document.getElementById('form').requestSubmit()")
    wait_for_answer(page)
    expect(by).to_have_value("ML plat")
    expect(by).to_be_focused()
    by.press_sequentially("form")
    by.press("Tab")
    wait_for_answer(page)
    assert "ML platform" in copied(page, "Copy for a model card")


def test_every_chart_has_its_data_as_table(page: Page) -> None:
    for name in pictures(page):
        page.locator(f"#{name} summary").click()
        expect(page.locator(f"#{name} tbody tr").nth(1)).to_be_visible()


def test_page_works_by_keyboard_alone(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the answer"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "strip"
    before = page.locator("#engine").inner_text()
    page.focus("#noise-slider")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#engine")).not_to_have_text(before)  # Requested only when the slider rests.
    wait_for_answer(page)
    expect(page.locator("#noise")).to_have_value("1.02")
    reached = set[str]()
    page.focus("#source")
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
    assert {"noise", "delta", "limit", "Answer", "Copy the sentence", "Copy for a model card", "report"} <= reached
