"""word2vec's negative sampling, compiled: many updates in one call, on shared vectors, by all threads at once.

At each place of a text the contexts c are the C words within a reduced window, the candidates t are the true word and K
negative samples, which all contexts of the place share:

    S_ct = v_c · u_t          G_ct = rate · ([t is the true word] − σ(S_ct))
    v_c ← v_c + Σ_t G_ct u_t          u_t ← u_t + Σ_c G_ct v_c

That is a step down the gradient of Σ_c L_c. With one set of negatives for all contexts these are products of small
matrices, whose rows stay in the nearest cache (Ji et al. 2019); with a set for each pair most of the time would go
into fetching rows. CBOW has one context vector at each place, the mean of the C.

Threads take chunks of the text, and write to the same vectors without waiting for each other (Recht et al. 2011).
Random numbers depend on the chunk alone, so that any number of threads sees the same samples, and one thread always
makes the same bits. This file needs Numba, and is imported only where it is used.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Int32, UInt64

from neuropil.data.words.dataset import END
from neuropil.parts.compilation import compiled, compiled_in_any_order
from neuropil.parts.threads.barrier import atomic_increment

CHUNK = 10_000
"""Words and sentence ends that a thread takes at once."""
ROWS, COLUMNS = 2, 6
"""Contexts and candidates of the blocks in which scores are computed: their twelve sums fit into registers."""
ALWAYS = 1 << 32
GOLDEN, FIRST, SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
LOG2_E, LN2 = np.float32(1.4426950408889634), np.float32(0.6931471805599453)
ROUNDER = np.float32(1.5 * 2**23)
"""So large that what is added to it is rounded to a whole number, which then stands in its lowest bits."""
F2, F3, F4, F5, F6 = (np.float32(1 / math.factorial(k)) for k in range(2, 7))
MOST_FACTORS = 1000
"""Of a product of numbers up to 2, which overflows beyond 2¹⁰²³."""
LN_2 = math.log(2)


class Sampler(NamedTuple):
    """Chances in units of 2⁻³². A negative sample is a word at random or, unless it is `kept`, its `alias`."""

    keep: UInt64[np.ndarray, " word"]
    kept: UInt64[np.ndarray, " word"]
    alias: Int32[np.ndarray, " word"]
    window: int
    negatives: int


class PlaceBuffers(NamedTuple):
    """What one thread needs for one place of the text."""

    contexts: np.ndarray
    candidates: np.ndarray
    vectors: np.ndarray
    """Of the candidates, of which there are a multiple of six."""
    changes: np.ndarray
    """Of those."""
    scores: np.ndarray
    """Of all candidates for one context after the other, where the gradients are put too."""
    signs: np.ndarray
    """+1 for each score of a true word, −1 for others."""
    factors: np.ndarray
    hidden: np.ndarray
    hidden_change: np.ndarray


# --- random numbers ---------------------------------------------------------------------------------------------------


@compiled
def next_random(state):
    """64 random bits (SplitMix64)."""
    state[0] += GOLDEN
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))


@compiled
def begin_random(state, key, chunk):
    """Each chunk's numbers begin where the generator, counting chunks, points to."""
    state[0] = np.uint64(key) + np.uint64(chunk) * GOLDEN
    state[0] = next_random(state)


@compiled
def draw_below(state, size):
    return np.int64(((next_random(state) >> HALF) * np.uint64(size)) >> HALF)


@compiled
def draw_noise(state, sampler):
    random = next_random(state)
    word = ((random >> HALF) * np.uint64(sampler.kept.shape[0])) >> HALF
    return np.int64(word) if (random & LOW) < sampler.kept[word] else np.int64(sampler.alias[word])


@compiled
def fill_aliases(chances, kept, alias):
    """Walker's method: every word has an equal share of the line, and gives what it does not need to one other."""
    size = len(chances)
    left = chances * (size / chances.sum())
    small, large = np.empty(size, np.int64), np.empty(size, np.int64)
    num_small = num_large = 0
    for word in range(size):
        kept[word], alias[word] = np.uint64(ALWAYS), word
        if left[word] < 1:
            small[num_small] = word
            num_small += 1
        else:
            large[num_large] = word
            num_large += 1
    while num_small > 0 and num_large > 0:
        num_small -= 1
        poor, rich = small[num_small], large[num_large - 1]
        kept[poor], alias[poor] = np.uint64(left[poor] * ALWAYS), rich
        left[rich] -= 1 - left[poor]
        if left[rich] < 1:
            num_large -= 1
            small[num_small] = rich
            num_small += 1


# --- what is sampled --------------------------------------------------------------------------------------------------


@compiled
def subsample(words, keep, state, kept):
    """The words that stay, with the ends of sentences; how many there are."""
    count = 0
    for word in words:
        if word < 0 or (next_random(state) >> HALF) < keep[word]:
            kept[count] = word
            count += 1
    return count


@compiled
def sample_place(text, count, place, sampler, state, contexts, candidates):
    """Contexts and candidates of one word, whose numbers are returned. A negative sample that is the word itself is
    left out."""
    reach = sampler.window - draw_below(state, sampler.window)
    num_contexts = 0
    for step in (-1, 1):
        other = place + step
        while 0 <= other < count and abs(other - place) <= reach and text[other] != END:
            contexts[num_contexts] = text[other]
            num_contexts += 1
            other += step
    candidates[0] = text[place]
    num_candidates = 1
    for _ in range(sampler.negatives):
        word = draw_noise(state, sampler)
        if word != text[place]:
            candidates[num_candidates] = word
            num_candidates += 1
    return num_contexts, num_candidates


# --- what is learned --------------------------------------------------------------------------------------------------


@compiled
def exp_below_zero(x):
    """Of x ≤ 0, by arithmetic alone. Its order matters: in any other, what is added for rounding would be taken away
    again before it has rounded anything."""
    x = max(x, np.float32(-87))
    # eˣ = 2ᵏ eʳ with |r| ≤ ½ ln 2, and eʳ by its series to r⁶
    shifted = x * LOG2_E + ROUNDER
    r = x - (shifted - ROUNDER) * LN2
    series = np.float32(1) + r * (np.float32(1) + r * (F2 + r * (F3 + r * (F4 + r * (F5 + r * F6)))))
    # k is added to the exponent
    return np.int32(np.float32(series).view(np.int32) + (np.float32(shifted).view(np.int32) << np.int32(23))).view(
        np.float32
    )


@compiled
def clear_row(x, row):
    for d in range(x.shape[1]):
        x[row, d] = 0


@compiled
def copy_row(x, row, y, other):
    for d in range(x.shape[1]):
        y[other, d] = x[row, d]


@compiled
def add_row(x, row, y, other):
    for d in range(x.shape[1]):
        y[other, d] += x[row, d]


@compiled_in_any_order
def score_block(v, a, b, u, t, scores, first, second):
    """S_ct of two contexts and six candidates, for the scores from `first` and from `second` on."""
    a0 = a1 = a2 = a3 = a4 = a5 = np.float32(0)
    b0 = b1 = b2 = b3 = b4 = b5 = np.float32(0)
    for d in range(v.shape[1]):
        x, y = v[a, d], v[b, d]
        a0, b0 = a0 + x * u[t, d], b0 + y * u[t, d]
        a1, b1 = a1 + x * u[t + 1, d], b1 + y * u[t + 1, d]
        a2, b2 = a2 + x * u[t + 2, d], b2 + y * u[t + 2, d]
        a3, b3 = a3 + x * u[t + 3, d], b3 + y * u[t + 3, d]
        a4, b4 = a4 + x * u[t + 4, d], b4 + y * u[t + 4, d]
        a5, b5 = a5 + x * u[t + 5, d], b5 + y * u[t + 5, d]
    set_six(scores, first, (a0, a1, a2, a3, a4, a5))
    set_six(scores, second, (b0, b1, b2, b3, b4, b5))


@compiled
def set_six(scores, place, values):
    scores[place], scores[place + 1], scores[place + 2] = values[0], values[1], values[2]
    scores[place + 3], scores[place + 4], scores[place + 5] = values[3], values[4], values[5]


@compiled
def get_six(g, place):
    return g[place], g[place + 1], g[place + 2], g[place + 3], g[place + 4], g[place + 5]


@compiled_in_any_order
def gradients(scores, signs, factors, size, rate):
    """G in the place of S, of `size` of them one after the other; and the loss.

    −ln σ(y) = max(−y, 0) + ln(1 + e^{−|y|}), where y is S of the true word and −S of a negative sample; the logarithms
    are those of products.
    """
    loss = np.float32(0)
    for place in range(size):
        y = signs[place] * scores[place]
        e = exp_below_zero(-abs(y))
        loss += max(-y, np.float32(0))
        factors[place] = np.float32(1) + e
        # [t is the true word] − σ(S) = ±σ(−y)
        scores[place] = rate * signs[place] * (e if y > 0 else np.float32(1)) / (np.float32(1) + e)
    total = np.float64(loss)
    for begin in range(0, size, MOST_FACTORS):
        product = 1.0
        for place in range(begin, min(begin + MOST_FACTORS, size)):
            product *= np.float64(factors[place])
        total += math.log(product)
    return total


@compiled_in_any_order
def add_to_contexts(v, a, b, u, t, g, first, second):
    """v_c ← v_c + Σ_t G_ct u_t of two contexts and six candidates."""
    a0, a1, a2, a3, a4, a5 = get_six(g, first)
    b0, b1, b2, b3, b4, b5 = get_six(g, second)
    for d in range(v.shape[1]):
        u0, u1, u2, u3, u4, u5 = u[t, d], u[t + 1, d], u[t + 2, d], u[t + 3, d], u[t + 4, d], u[t + 5, d]
        v[a, d] += a0 * u0 + a1 * u1 + a2 * u2 + a3 * u3 + a4 * u4 + a5 * u5
        v[b, d] += b0 * u0 + b1 * u1 + b2 * u2 + b3 * u3 + b4 * u4 + b5 * u5


@compiled_in_any_order
def add_to_changes(changes, v, a, b, t, g, first, second):
    """Σ_c G_ct v_c of two contexts and six candidates."""
    a0, a1, a2, a3, a4, a5 = get_six(g, first)
    b0, b1, b2, b3, b4, b5 = get_six(g, second)
    for d in range(v.shape[1]):
        x, y = v[a, d], v[b, d]
        changes[t, d] += a0 * x + b0 * y
        changes[t + 1, d] += a1 * x + b1 * y
        changes[t + 2, d] += a2 * x + b2 * y
        changes[t + 3, d] += a3 * x + b3 * y
        changes[t + 4, d] += a4 * x + b4 * y
        changes[t + 5, d] += a5 * x + b5 * y


@compiled
def learn_pairs(v, u, buffers, num_contexts, num_candidates, rate):
    """A step of skip-gram at one place; the loss before it, summed over contexts."""
    contexts, candidates, g, columns = buffers.contexts, buffers.candidates, buffers.scores, buffers.vectors.shape[0]
    # Missing candidates are vectors of zeros, whose scores of 0 cost ln 2 each. An odd context is paired with itself.
    for t in range(num_candidates):
        copy_row(u, candidates[t], buffers.vectors, t)
    for t in range(num_candidates, columns):
        clear_row(buffers.vectors, t)
    for t in range(columns):
        clear_row(buffers.changes, t)
    contexts[num_contexts] = contexts[num_contexts - 1]
    for c in range(0, num_contexts, ROWS):
        for t in range(0, columns, COLUMNS):
            first = c * columns + t
            score_block(v, contexts[c], contexts[c + 1], buffers.vectors, t, g, first, first + columns)
    size = num_contexts * columns
    loss = gradients(g, buffers.signs, buffers.factors, size, rate) - num_contexts * (columns - num_candidates) * LN_2
    for place in range(size, size + columns):
        g[place] = 0
    for c in range(0, num_contexts, ROWS):
        for t in range(0, columns, COLUMNS):
            first = c * columns + t
            add_to_changes(buffers.changes, v, contexts[c], contexts[c + 1], t, g, first, first + columns)
    for c in range(0, num_contexts, ROWS):
        for t in range(0, columns, COLUMNS):
            first = c * columns + t
            add_to_contexts(v, contexts[c], contexts[c + 1], buffers.vectors, t, g, first, first + columns)
    for t in range(num_candidates):
        add_row(buffers.changes, t, u, candidates[t])
    return loss


@compiled_in_any_order
def learn_mean(v, u, buffers, num_contexts, num_candidates, rate):
    """A step of CBOW at one place; the loss before it. Each context gets its share 1/C of the gradient of the mean,
    which word2vec.c and gensim give to each in full (İrsoy, Benton and Stratos 2021)."""
    hidden, change, g = buffers.hidden, buffers.hidden_change, buffers.scores
    width, share = v.shape[1], np.float32(1) / np.float32(num_contexts)
    for d in range(width):
        hidden[d] = change[d] = 0
    for c in range(num_contexts):
        for d in range(width):
            # v_c = 1/C Σ_j v_j
            hidden[d] += v[buffers.contexts[c], d] * share
    for t in range(num_candidates):
        score = np.float32(0)
        for d in range(width):
            score += hidden[d] * u[buffers.candidates[t], d]
        g[t] = score
    loss = gradients(g, buffers.signs, buffers.factors, num_candidates, rate)
    for t in range(num_candidates):
        for d in range(width):
            change[d] += g[t] * u[buffers.candidates[t], d]
    for t in range(num_candidates):
        for d in range(width):
            u[buffers.candidates[t], d] += g[t] * hidden[d]
    for c in range(num_contexts):
        for d in range(width):
            v[buffers.contexts[c], d] += change[d] * share
    return loss


@compiled
def buffers_for(width, sampler):
    contexts, single = 2 * sampler.window + ROWS, np.float32
    candidates = -(-(sampler.negatives + 1) // COLUMNS) * COLUMNS
    signs = np.full(contexts * candidates, -1, single)
    signs[::candidates] = 1
    return PlaceBuffers(
        np.zeros(contexts, np.int64),
        np.zeros(candidates, np.int64),
        np.zeros((candidates, width), single),
        np.zeros((candidates, width), single),
        np.zeros(contexts * candidates, single),
        signs,
        np.zeros(contexts * candidates, single),
        np.zeros(width, single),
        np.zeros(width, single),
    )


@compiled
def learn(words, v, u, sampler, skip_gram, key, chunks, rates, losses, pairs, taken, team):
    """All members together: each of the `chunks` with its rate. `losses` and `pairs` are summed over its places."""
    buffers, state, text = buffers_for(v.shape[1], sampler), np.zeros(1, np.uint64), np.empty(CHUNK, np.int32)
    while True:
        number = atomic_increment(taken)
        if number >= len(chunks):
            break
        chunk = chunks[number]
        begin_random(state, key, chunk)
        count = subsample(words[chunk * CHUNK : (chunk + 1) * CHUNK], sampler.keep, state, text)
        for place in range(count):
            if text[place] != END:
                num_contexts, num_candidates = sample_place(
                    text, count, place, sampler, state, buffers.contexts, buffers.candidates
                )
                if num_contexts > 0 and skip_gram:
                    losses[number] += learn_pairs(v, u, buffers, num_contexts, num_candidates, rates[number])
                    pairs[number] += num_contexts
                elif num_contexts > 0:
                    losses[number] += learn_mean(v, u, buffers, num_contexts, num_candidates, rates[number])
                    pairs[number] += 1


@compiled
def sample_chunk(words, sampler, key, chunk, contexts, candidates):
    """What `learn` would learn from in this chunk: the contexts and candidates of each place, which stay as they were
    where there are fewer; how many places there are."""
    state, text = np.zeros(1, np.uint64), np.empty(CHUNK, np.int32)
    own_contexts, own_candidates = np.zeros(2 * sampler.window, np.int64), np.zeros(sampler.negatives + 1, np.int64)
    begin_random(state, key, chunk)
    count = subsample(words[chunk * CHUNK : (chunk + 1) * CHUNK], sampler.keep, state, text)
    sampled = 0
    for place in range(count):
        if text[place] != END:
            num_contexts, num_candidates = sample_place(
                text, count, place, sampler, state, own_contexts, own_candidates
            )
            if num_contexts > 0:
                contexts[sampled, :num_contexts] = own_contexts[:num_contexts]
                candidates[sampled, :num_candidates] = own_candidates[:num_candidates]
                sampled += 1
    return sampled
