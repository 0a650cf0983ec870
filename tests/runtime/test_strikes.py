"""What fails again and again is tried more rarely, then given up; what fails rarely never is."""

from __future__ import annotations

from ebrl.runtime.strikes import LONGEST_WAIT_S, SOON_S, Strikes


def fail(strikes: Strikes, times: int, lives_s: float) -> list[float]:
    now, waits = 1000.0, []
    for _ in range(times):
        waits.append(strikes.strike(now))
        strikes.mended(now + waits[-1])
        now += waits[-1] + lives_s
    return waits


def test_waits_are_none_at_first_then_double_up_to_a_limit() -> None:
    waits = fail(Strikes(20), 18, lives_s=0.1)
    assert waits[:10] == [0.0] * 10
    assert waits[10:15] == [0.25, 0.5, 1.0, 2.0, 4.0]
    assert max(waits) == LONGEST_WAIT_S


def test_four_in_a_row_are_not_enough_of_five() -> None:
    strikes = Strikes(5)
    fail(strikes, 4, lives_s=0.1)
    assert not strikes.enough


def test_five_in_a_row_are_enough() -> None:
    strikes = Strikes(5)
    fail(strikes, 5, lives_s=0.1)
    assert strikes.enough
    assert "5 times in a row" in str(strikes)


def test_what_fails_rarely_is_borne_for_ever() -> None:
    strikes = Strikes(5)
    waits = fail(strikes, 500, lives_s=600.0)
    assert not strikes.enough
    assert set(waits) == {0.0}


def test_what_fails_often_but_not_at_once_is_enough_in_the_end() -> None:
    strikes = Strikes(5)
    fail(strikes, 49, lives_s=2 * SOON_S)
    assert not strikes.enough
    fail(strikes, 50, lives_s=2 * SOON_S)
    assert strikes.enough
