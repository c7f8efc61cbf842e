"""word2vec's negative sampling, compiled: many updates in one call, on shared vectors, by all threads at once.

At each place of a text the contexts c are the C words within a reduced window, the candidates t are the true word and K
negative samples, which all contexts of the place share:

    S_ct = v_c · u_t          G_ct = rate · ([t is the true word] − σ(S_ct))
    v_c ← v_c + Σ_t G_ct u_t          u_t ← u_t + Σ_c G_ct v_c

That is a step down the gradient of Σ_c L_c. With one set of negatives for all contexts these are products of small
matrices, whose rows stay in the nearest cache (Ji et al. 2019); with a set for each pair most of the time would go
into fetching rows. CBOW has one context vector at each place, the mean of the C.

Threads take chunks of the text, and write to the same vectors without waiting for each other (Recht et al. 2011). Random
numbers depend on the chunk alone, so that any number of threads sees the same samples, and one thread always makes the
same bits. This file needs Numba, and is imported only where it is used.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int32, UInt64

from neuropil.data.words.dataset import END
from neuropil.parts.barrier import atomic_increment
from neuropil.parts.compilation import compiled, compiled_in_any_order

CHUNK = 10_000
"""Words and sentence ends that a thread takes at once."""
ROWS, COLUMNS = 2, 3
"""Of the blocks in which scores are computed: the vectors of two contexts and three candidates fit into registers."""
ALWAYS = 1 << 32
GOLDEN, FIRST, SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
LOG2_E, LN2 = np.float32(1.4426950408889634), np.float32(0.6931471805599453)
ROUNDER = np.float32(1.5 * 2**23)
"""So large that what is added to it is rounded to a whole number, which then stands in its lowest bits."""
F2, F3, F4, F5, F6 = (np.float32(1 / math.factorial(k)) for k in range(2, 7))
LARGE = 1e250


class Sampler(NamedTuple):
    """Chances in units of 2⁻³². A negative sample is a word at random or, unless it is `kept`, its `alias`."""

    keep: UInt64[np.ndarray, " word"]
    kept: UInt64[np.ndarray, " word"]
    alias: Int32[np.ndarray, " word"]
    window: int
    negatives: int


class Room(NamedTuple):
    """What one thread needs for one place of the text."""

    contexts: np.ndarray
    candidates: np.ndarray
    vectors: np.ndarray
    """Of the candidates."""
    changes: np.ndarray
    """Of those."""
    scores: np.ndarray
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
def fill_aliases(chances: Float64[np.ndarray, " word"], kept, alias):
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


@compiled_in_any_order
def exp_below_zero(x):
    """Of x ≤ 0, by arithmetic alone, of which a processor takes as many numbers at once as its registers hold."""
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
def score_block(v, a, b, u, t, scores, row):
    """S_ct of two contexts and three candidates."""
    a0 = a1 = a2 = b0 = b1 = b2 = np.float32(0)
    for d in range(v.shape[1]):
        x, y = v[a, d], v[b, d]
        a0 += x * u[t, d]
        a1 += x * u[t + 1, d]
        a2 += x * u[t + 2, d]
        b0 += y * u[t, d]
        b1 += y * u[t + 1, d]
        b2 += y * u[t + 2, d]
    scores[row, t], scores[row, t + 1], scores[row, t + 2] = a0, a1, a2
    scores[row + 1, t], scores[row + 1, t + 1], scores[row + 1, t + 2] = b0, b1, b2


@compiled_in_any_order
def gradients(scores, num_contexts, num_candidates, rate):
    """G in the place of S, with zeros where there is no such context or candidate; and the loss.

    −ln σ(y) = max(−y, 0) + ln(1 + e^{−|y|}), of which the logarithms are those of one product.
    """
    loss, product = 0.0, 1.0
    for c in range(num_contexts):
        for t in range(num_candidates):
            sign = np.float32(1) if t == 0 else np.float32(-1)
            y = sign * scores[c, t]
            e = exp_below_zero(-abs(y))
            loss += max(-y, np.float32(0))
            product *= np.float64(np.float32(1) + e)
            # [t is the true word] − σ(S) = ±σ(−y)
            scores[c, t] = rate * sign * (e if y > 0 else np.float32(1)) / (np.float32(1) + e)
        if product > LARGE:
            loss, product = loss + math.log(product), 1.0
    return loss + math.log(product)


@compiled_in_any_order
def add_to_contexts(v, a, b, u, t, g, row):
    """v_c ← v_c + Σ_t G_ct u_t of two contexts and three candidates."""
    a0, a1, a2 = g[row, t], g[row, t + 1], g[row, t + 2]
    b0, b1, b2 = g[row + 1, t], g[row + 1, t + 1], g[row + 1, t + 2]
    for d in range(v.shape[1]):
        x, y, z = u[t, d], u[t + 1, d], u[t + 2, d]
        v[a, d] += a0 * x + a1 * y + a2 * z
        v[b, d] += b0 * x + b1 * y + b2 * z


@compiled_in_any_order
def add_to_changes(changes, v, a, b, t, g, row):
    """Σ_c G_ct v_c of two contexts and three candidates."""
    a0, a1, a2 = g[row, t], g[row, t + 1], g[row, t + 2]
    b0, b1, b2 = g[row + 1, t], g[row + 1, t + 1], g[row + 1, t + 2]
    for d in range(v.shape[1]):
        x, y = v[a, d], v[b, d]
        changes[t, d] += a0 * x + b0 * y
        changes[t + 1, d] += a1 * x + b1 * y
        changes[t + 2, d] += a2 * x + b2 * y


@compiled_in_any_order
def learn_pairs(v, u, room, num_contexts, num_candidates, rate):
    """A step of skip-gram at one place; the loss before it, summed over contexts."""
    contexts, candidates, g = room.contexts, room.candidates, room.scores
    # An odd context is paired with itself, and missing candidates are vectors of zeros; their G is 0.
    rows, columns = -(-num_contexts // ROWS) * ROWS, -(-num_candidates // COLUMNS) * COLUMNS
    if rows > num_contexts:
        contexts[num_contexts] = contexts[num_contexts - 1]
    for t in range(num_candidates):
        copy_row(u, candidates[t], room.vectors, t)
    for t in range(columns):
        clear_row(room.changes, t)
    for t in range(num_candidates, columns):
        clear_row(room.vectors, t)
    for row in range(0, rows, ROWS):
        for t in range(0, columns, COLUMNS):
            score_block(v, contexts[row], contexts[row + 1], room.vectors, t, g, row)
    loss = gradients(g, num_contexts, num_candidates, rate)
    for t in range(columns):
        for row in range(rows):
            if t >= num_candidates or row >= num_contexts:
                g[row, t] = 0
    for row in range(0, rows, ROWS):
        for t in range(0, columns, COLUMNS):
            add_to_changes(room.changes, v, contexts[row], contexts[row + 1], t, g, row)
    for row in range(0, rows, ROWS):
        for t in range(0, columns, COLUMNS):
            add_to_contexts(v, contexts[row], contexts[row + 1], room.vectors, t, g, row)
    for t in range(num_candidates):
        add_row(room.changes, t, u, candidates[t])
    return loss


@compiled_in_any_order
def learn_mean(v, u, room, num_contexts, num_candidates, rate):
    """A step of CBOW at one place; the loss before it. Each context gets its share 1/C of the gradient of the mean,
    which word2vec.c and gensim give to each in full (İrsoy, Benton and Stratos 2021)."""
    hidden, change, scores = room.hidden, room.hidden_change, room.scores
    width, share = v.shape[1], np.float32(1) / np.float32(num_contexts)
    for d in range(width):
        hidden[d] = change[d] = 0
    for c in range(num_contexts):
        for d in range(width):
            # v_c = 1/C Σ_j v_j
            hidden[d] += v[room.contexts[c], d] * share
    for t in range(num_candidates):
        score = np.float32(0)
        for d in range(width):
            score += hidden[d] * u[room.candidates[t], d]
        scores[0, t] = score
    loss = gradients(scores, 1, num_candidates, rate)
    for t in range(num_candidates):
        g = scores[0, t]
        for d in range(width):
            change[d] += g * u[room.candidates[t], d]
    for t in range(num_candidates):
        g = scores[0, t]
        for d in range(width):
            u[room.candidates[t], d] += g * hidden[d]
    for c in range(num_contexts):
        for d in range(width):
            v[room.contexts[c], d] += change[d] * share
    return loss


@compiled
def room_for(width, sampler):
    contexts, candidates = 2 * sampler.window + ROWS, sampler.negatives + 1 + COLUMNS
    single = np.float32
    return Room(
        np.zeros(contexts, np.int64),
        np.zeros(candidates, np.int64),
        np.zeros((candidates, width), single),
        np.zeros((candidates, width), single),
        np.zeros((contexts, candidates), single),
        np.zeros(width, single),
        np.zeros(width, single),
    )


@compiled
def learn(words, v, u, sampler, skip_gram, key, first_chunk, rates, losses, pairs, taken, team):
    """All members together: a chunk for each of the `rates`, from `first_chunk` on. `losses` and `pairs` are summed over
    the places of each chunk."""
    room, state, text = room_for(v.shape[1], sampler), np.zeros(1, np.uint64), np.empty(CHUNK, np.int32)
    while True:
        number = atomic_increment(taken)
        if number >= len(rates):
            break
        chunk = first_chunk + number
        begin_random(state, key, chunk)
        count = subsample(words[chunk * CHUNK : (chunk + 1) * CHUNK], sampler.keep, state, text)
        for place in range(count):
            if text[place] != END:
                num_contexts, num_candidates = sample_place(
                    text, count, place, sampler, state, room.contexts, room.candidates
                )
                if num_contexts > 0 and skip_gram:
                    losses[number] += learn_pairs(v, u, room, num_contexts, num_candidates, rates[number])
                    pairs[number] += num_contexts
                elif num_contexts > 0:
                    losses[number] += learn_mean(v, u, room, num_contexts, num_candidates, rates[number])
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
