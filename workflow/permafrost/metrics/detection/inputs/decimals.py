"""Read short decimal numbers, many at a time, eight characters in one 64-bit word each.

A number of at most eight digits and a power of ten below 10**8 are exact floats, so that their quotient, which the
processor rounds correctly, is the float that any parser gives.
"""

from __future__ import annotations

import numpy as np

_ZEROS = np.uint64(0x3030303030303030)
_HIGH = np.uint64(0x8080808080808080)
_ONES = np.uint64(0x0101010101010101)
_DOTS = np.uint64(ord(".")) * _ONES
# added to a character above '9', it sets the high bit
_ABOVE_NINE = np.uint64(0x7F - ord("9")) * _ONES
# the bytes of a word that its last n characters fill; none for those that do not fit
_FILLED = np.array([0, *((1 << 64) - (1 << 64 - 8 * n) for n in range(1, 9)), 0], np.uint64)
_POWERS = 10.0 ** np.arange(9)
_MINUS, _DOT, _ZERO = np.frombuffer(b"-.0", np.uint8)
# the lowest bit of a word's last character
_LAST = np.uint64(1 << 56)


def short_decimals(
    text: bytes, starts: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read the tokens of a text.

    Parameters
    ----------
    text : at least eight characters before the first token's end, and one behind the last token.
    starts, ends : (N,) the first character of each token, of which there is one at least, and the one after its last.

    Returns
    -------
    (N,) float64 values; (N,) bool, tokens with a point; (N,) bool, tokens that must be read in
    another way: longer than eight characters (without a minus), not a number as JSON writes it, or a negative zero.
    """
    codes = np.frombuffer(text, np.uint8)
    first = codes[starts]
    negative = np.flatnonzero(first == _MINUS)
    if len(negative):
        starts = starts.copy()
        starts[negative] += 1
        first = codes[starts]
    length = ends - starts
    # the word at each position holds the eight characters before it, the last one in its highest byte
    before = np.ndarray((len(text) - 7,), "<u8", text, strides=(1,))
    filled = _FILLED[np.minimum(length, 9)]
    word = (before[ends - 8] & filled) | (_ZEROS & ~filled)
    odd = (length > 8) | (length == 0) | (first == _DOT)
    zeros = np.flatnonzero((first == _ZERO) & (length > 1))
    odd[zeros] |= codes[starts[zeros] + 1] != _DOT
    word, pointed, decimals, wrong = _without_point(word)
    word -= _ZEROS
    odd |= wrong
    digits = _digits(word)
    values = digits.astype(np.float64)
    values /= _POWERS[decimals]
    values[negative] *= -1
    odd[negative] |= digits[negative] == 0
    return values, pointed, odd


def _without_point(word: np.ndarray):
    """Words without their point, whether there was one, the number of digits behind it, and which are no numbers."""
    other = word ^ _DOTS
    # the highest bit of each byte that is 0: of its borrows only '/' would be another, which is no digit
    point = ((other - _ONES) & ~other & _HIGH) >> np.uint64(7)
    pointed = point != 0
    # without a point, all digits are ahead
    ahead = point - np.uint64(1)
    wrong = ((point & ahead) | (point & _LAST)) != 0
    behind = ~(ahead << np.uint64(8) | np.uint64(0xFF))
    shift = pointed.astype(np.uint64)
    shift <<= np.uint64(3)
    # in the first byte, a digit stays what it is, and an empty one becomes '0'
    moved = (word & behind) | ((word & ahead) << shift) | np.uint64(ord("0"))
    wrong |= ((moved + _ABOVE_NINE) | (moved - _ZEROS)) & _HIGH != 0
    return moved, pointed, np.bitwise_count(behind) >> 3, wrong


def _digits(word: np.ndarray) -> np.ndarray:
    """The number of eight digits from 0 to 9, of which the first is the lowest byte."""
    word = word * np.uint64(10) + (word >> np.uint64(8))
    low = (word & np.uint64(0x000000FF000000FF)) * np.uint64(100 + (1000000 << 32))
    high = ((word >> np.uint64(16)) & np.uint64(0x000000FF000000FF)) * np.uint64(1 + (10000 << 32))
    return (low + high) >> np.uint64(32)
