// Attention, and rotary position embeddings.
#include "runtime/attention/attention.h"

#include <algorithm>
#include <cmath>

#include "base/checked_size.h"
#include "base/threads/parallel.h"
#include "runtime/attention/cache.h"
#include "runtime/meter.h"
#include "runtime/ops/families.h"

namespace crumb::runtime {
namespace {

/// An input as [batch, heads, rows, depth].
struct Heads {
  std::size_t batch = 0, heads = 0, rows = 0, depth = 0;
  HeadRows at;
};

std::size_t size_of(std::int64_t size) { return static_cast<std::size_t>(size); }

/// The input has shape [batch, heads, rows, depth] or [batch, rows, heads * depth].
Heads heads_of(const Call& call, std::size_t i, std::int64_t heads) {
  const float* const data = call.floats(i).data();
  const Array& x = call.in(i);
  if (x.rank() == 4) {
    Heads made{size_of(x.dim(0)), size_of(x.dim(1)), size_of(x.dim(2)), size_of(x.dim(3)), {}};
    made.at = {data, made.heads * made.rows * made.depth, made.rows * made.depth, made.depth};
    return made;
  }
  if (x.rank() != 3) call.fail("expected an input of 3 or 4 axes, found " + text_of(x));
  if (heads < 1 || x.dim(2) % heads != 0)
    call.fail("input " + std::to_string(i) + " is " + text_of(x) + ", which does not split into " +
              std::to_string(heads) + " heads");
  Heads made{size_of(x.dim(0)), size_of(heads), size_of(x.dim(1)), size_of(x.dim(2) / heads), {}};
  made.at = {data, made.rows * size_of(x.dim(2)), made.depth, size_of(x.dim(2))};
  return made;
}

/// The past, [batch, heads, rows, depth], and the new rows behind it.
Array joined(const Array& past, const Heads& more, ElementType type) {
  const std::size_t before = past.defined() ? size_of(past.dim(2)) : 0;
  const auto rows = checked::narrow<std::int64_t>(checked::add(before, more.rows));
  if (!rows) throw Error("there are too many keys");
  Array made(type, {static_cast<std::int64_t>(more.batch), static_cast<std::int64_t>(more.heads), *rows,
                    static_cast<std::int64_t>(more.depth)});
  if (made.size() == 0) return made;
  float* to = made.writable<float>().data();
  const float* from = past.defined() ? past.values<float>().data() : nullptr;
  for (std::size_t b = 0; b < more.batch; ++b) {
    for (std::size_t h = 0; h < more.heads; ++h) {
      if (before > 0) {
        to = std::copy(from, from + before * more.depth, to);
        from += before * more.depth;
      }
      for (std::size_t i = 0; i < more.rows; ++i)
        to = std::copy(more.at.at(b, h, i), more.at.at(b, h, i) + more.depth, to);
    }
  }
  return made;
}

HeadRows rows_of(const Array& x) {
  const std::size_t heads = size_of(x.dim(1)), rows = size_of(x.dim(2)), depth = size_of(x.dim(3));
  return {x.values<float>().data(), heads * rows * depth, rows * depth, depth};
}

/// Keys or values together with those of the past; also output `to` where that is wanted.
struct Kept {
  Array array;  ///< undefined where the input itself can be read
  Heads all;
};

void check_past(const Call& call, const Heads& now, std::size_t i, std::size_t past) {
  call.floats(past);
  const Array& before = call.in(past);
  const bool fits = before.rank() == 4 && size_of(before.dim(0)) == now.batch &&
                    size_of(before.dim(1)) == now.heads && size_of(before.dim(3)) == now.depth;
  if (!fits)
    call.fail("input " + std::to_string(past) + " is " + text_of(before) + ", which does not go with " +
              text_of(call.in(i)));
}

Kept kept(Call& call, const Heads& now, std::size_t i, std::size_t past, std::size_t to) {
  const bool wanted = to < call.outputs() && call.wants(to);
  Kept made{{}, now};
  if (call.has(past)) {
    check_past(call, now, i, past);
    made.array = joined(call.in(past), now, call.in(i).type());
  } else if (wanted) {
    made.array = call.in(i).rank() == 4 ? call.in(i) : joined({}, now, call.in(i).type());
  }
  if (made.array.defined()) {
    made.all.rows = size_of(made.array.dim(2));
    made.all.at = rows_of(made.array);
    if (wanted) call.give(to, made.array);
  }
  return made;
}

/// kept() where a session holds the past: inputs and outputs are shapes without elements. An input without a
/// past is what another node of the same cache made.
Kept in_session(Call& call, const Heads& now, std::size_t i, std::size_t past, std::size_t to) {
  if (!call.has(past)) {
    if (now.rows != call.cache()->places()) call.fail("its keys are not those that its session has");
    return {{}, now};
  }
  const Array& before = call.in(past);
  check_past(call, now, i, past);
  if (size_of(before.dim(2)) != call.cache()->length())
    call.fail("its session has changed since the inputs were made");
  const auto rows = checked::narrow<std::int64_t>(checked::add(before.dim(2), now.rows));
  if (!rows) call.fail("there are too many keys");
  Kept made{{}, now};
  made.all.rows = size_of(*rows);
  call.give(to, Array::elsewhere(before.type(), {before.dim(0), before.dim(1), *rows, before.dim(3)}));
  return made;
}

/// The mask has up to four axes and broadcasts to [batch, heads, queries, keys]. A shorter last axis covers
/// the first keys; before operator set 24 a last axis of 1 is for every key.
AttentionMask mask_of(const Call& call, const Attention& a) {
  AttentionMask mask;
  const Array& given = call.in(3);
  if (given.carrier() == Carrier::kBool) {
    mask.allowed = given.values<bool>().data();
  } else {
    mask.added = call.floats(3).data();
  }
  const std::size_t sizes[] = {a.batch, a.heads, a.queries, a.keys};
  std::size_t* const steps[] = {&mask.batch, &mask.head, &mask.row, &mask.key};
  mask.keys = a.keys;
  bool fits = given.rank() <= 4;
  std::size_t reach = 1;
  for (std::size_t back = 1; fits && back <= size_of(given.rank()); ++back) {
    const std::size_t axis = 4 - back,
                      size = size_of(given.dim(given.rank() - static_cast<std::int64_t>(back)));
    const bool covers_first = axis == 3 && size < sizes[axis] && (size != 1 || call.node().version >= 24);
    fits = size == sizes[axis] || size == 1 || covers_first;
    if (covers_first) mask.keys = size;
    if (size == sizes[axis] || covers_first) *steps[axis] = reach;
    reach *= size;
  }
  if (!fits)
    call.fail("its mask is " + text_of(given) + ", which does not broadcast to " +
              graph::text_of(Ints(std::begin(sizes), std::end(sizes))));
  return mask;
}

struct AttentionFacts {
  std::int64_t query_heads, kv_heads, stage;
  bool causal;
  std::optional<float> scale;
  float softcap;
};

/// The first three inputs. Fails where they do not go together, or where only one of past_key and past_value
/// is there.
struct AttentionInputs {
  Heads q, k, v;

  static AttentionInputs of(const Call& call, const AttentionFacts& facts) {
    AttentionInputs made{heads_of(call, 0, facts.query_heads), heads_of(call, 1, facts.kv_heads),
                         heads_of(call, 2, facts.kv_heads)};
    const auto& [q, k, v] = made;
    const bool fits = q.batch == k.batch && q.batch == v.batch && q.depth == k.depth && k.heads == v.heads &&
                      k.rows == v.rows && k.heads > 0 && q.heads % k.heads == 0 && q.depth > 0;
    if (!fits || call.has(4) != call.has(5))
      call.fail("its inputs do not go together: " + text_of(call.in(0)) + ", " + text_of(call.in(1)) + ", " +
                text_of(call.in(2)) + (fits ? ", and one of past_key and past_value" : ""));
    return made;
  }
};

/// Appends the keys and values to the session's cache, unless an earlier node has, and sets `a` to read all
/// of them. The result keeps what `a` points to alive.
std::array<CachedRows::Reading, 2> take_from_cache(const Call& call, KeyCache& cache, const Heads& k,
                                                   const Heads& v, Attention& a) {
  try {
    if (call.appends()) cache.append({k.batch, k.heads, k.depth, v.depth}, k.rows, k.at, v.at);
  } catch (const Stopped&) {
    throw;
  } catch (const Error& error) {
    call.fail(error.what());
  }
  std::array<CachedRows::Reading, 2> read{cache.keys(call.threads()), cache.values(call.threads())};
  a.k = read[0].rows;
  a.v = read[1].rows;
  a.finite = cache.finite();
  return read;
}

/// Makes the output in the layout of the queries, and the scores where they are wanted.
void make_outputs(Call& call, Attention& a) {
  const ElementType type = call.in(0).type();
  const auto [batch, heads, queries, depth] = std::array<std::int64_t, 4>{
      static_cast<std::int64_t>(a.batch), static_cast<std::int64_t>(a.heads),
      static_cast<std::int64_t>(a.queries), static_cast<std::int64_t>(a.value_depth)};
  if (call.in(0).rank() == 4) {
    a.y = call.make(0, type, {batch, heads, queries, depth}).writable<float>().data();
    a.y_row = a.value_depth;
    a.y_head = a.queries * a.value_depth;
  } else {
    const auto width = checked::narrow<std::int64_t>(checked::multiply(a.heads, a.value_depth));
    if (!width) call.fail("its output is too large");
    a.y = call.make(0, type, {batch, queries, *width}).writable<float>().data();
    a.y_head = a.value_depth;
    a.y_row = a.heads * a.value_depth;
  }
  a.y_batch = a.queries * a.heads * a.value_depth;
  if (3 < call.outputs() && call.wants(3)) {
    const auto count = static_cast<std::int64_t>(a.keys);
    a.scores = call.make(3, type, {batch, heads, queries, count}).writable<float>().data();
  }
}

void attend_to(Call& call, const AttentionFacts& facts) {
  const auto [q, k, v] = AttentionInputs::of(call, facts);
  const Kept keys = call.cache() ? in_session(call, k, 1, 4, 1) : kept(call, k, 1, 4, 1);
  const Kept values = call.cache() ? in_session(call, v, 2, 5, 2) : kept(call, v, 2, 5, 2);
  if (keys.all.rows != values.all.rows) call.fail("there are not as many values as keys");
  Attention a{.batch = q.batch,
              .heads = q.heads,
              .kv_heads = k.heads,
              .queries = q.rows,
              .keys = keys.all.rows,
              .depth = q.depth,
              .value_depth = v.depth,
              .q = q.at,
              .k = keys.all.at,
              .v = values.all.at,
              .causal = facts.causal,
              .past = keys.all.rows - k.rows,
              .scale = facts.scale.value_or(1.0F / std::sqrt(static_cast<float>(q.depth))),
              .softcap = facts.softcap,
              .stage = static_cast<ScoreStage>(facts.stage)};
  std::array<CachedRows::Reading, 2> cached;
  if (KeyCache* const cache = call.cache()) cached = take_from_cache(call, *cache, k, v, a);
  if (call.has(3)) a.mask = mask_of(call, a);
  Ints counts;
  if (call.has(6)) {
    counts = call.ints(6);
    if (counts.size() != a.batch)
      call.fail("nonpad_kv_seqlen is " + text_of(call.in(6)) + ", expected one for each of " +
                std::to_string(a.batch));
    a.key_counts = counts.data();
  }
  make_outputs(call, a);
  call.spend({a.batch, a.heads, a.queries, a.keys, a.depth});
  call.spend({a.batch, a.heads, a.queries, a.keys, a.value_depth});
  attend(a, call.threads());
}

Kernel attention(const NodeFacts& facts) {
  AttentionFacts known{.query_heads = facts.int_or("q_num_heads", 0),
                       .kv_heads = facts.int_or("kv_num_heads", 0),
                       .stage = facts.int_or("qk_matmul_output_mode", 0),
                       .causal = facts.int_or("is_causal", 0) != 0,
                       .scale = {},
                       .softcap = facts.float_or("softcap", 0)};
  if (facts.node.has("scale")) known.scale = facts.float_or("scale", 1);
  if (known.stage < 0 || known.stage > 3)
    facts.fail("qk_matmul_output_mode: expected 0 to 3, found " + std::to_string(known.stage));
  return [known](Call& call) { attend_to(call, known); };
}

/// RotaryEmbedding rotates the first `dim` elements of each head (0: all of them) in pairs, by the angle of
/// their position: element k with element k + dim / 2, or neighbours where interleaved.
struct RotaryAttributes {
  std::int64_t heads, dim;
  bool interleaved;
};

void rotate(Call& call, const RotaryAttributes& rotation) {
  const Heads x = heads_of(call, 0, rotation.heads);
  const std::size_t dim = rotation.dim == 0 ? x.depth : size_of(rotation.dim), half = dim / 2;
  if (rotation.dim < 0 || dim > x.depth || dim % 2 != 0)
    call.fail("cannot rotate " + std::to_string(rotation.dim) + " of " + std::to_string(x.depth) +
              " elements");
  // The angles of position i of sequence b are row (b * angle_batch + i) of both tables, or row ids[b, i].
  const auto cosines = call.floats(1), sines = call.floats(2);
  const Ints& table = call.in(1).shape();
  const bool by_id = call.has(3);
  bool fits = table == call.in(2).shape() && table.size() == (by_id ? 2 : 3) && size_of(table.back()) == half;
  if (fits && !by_id) fits = size_of(table[1]) == x.rows && (size_of(table[0]) == x.batch || table[0] == 1);
  Ints ids;
  if (by_id) {
    ids = call.ints(3);
    fits = fits &&
           call.in(3).shape() == Ints{static_cast<std::int64_t>(x.batch), static_cast<std::int64_t>(x.rows)};
  }
  if (!fits)
    call.fail("its inputs do not go together: " + text_of(call.in(0)) + ", " + text_of(call.in(1)) + ", " +
              text_of(call.in(2)) + (by_id ? ", " + text_of(call.in(3)) : ""));
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= table[0])
      call.fail("position " + std::to_string(id) + " is outside a table of " + std::to_string(table[0]));
  }
  const std::size_t angle_batch = !by_id && table[0] == 1 ? 0 : x.rows;
  const float* const from = call.floats(0).data();
  float* const to = call.make(0, call.in(0).type(), call.in(0).shape()).writable<float>().data();
  if (call.in(0).size() == 0) return;
  const std::size_t rows = x.batch * x.heads * x.rows;
  parallel_for(rows, std::max<std::size_t>(1, (std::size_t{1} << 14) / x.depth), call.threads(),
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t r = begin; r < end; ++r) {
                   const std::size_t i = r % x.rows, h = r / x.rows % x.heads, b = r / x.rows / x.heads;
                   const float* const in = x.at.at(b, h, i);
                   float* const out = to + (in - from);
                   const std::size_t angle = by_id ? size_of(ids[b * x.rows + i]) : b * angle_batch + i;
                   const float *const c = cosines.data() + angle * half, *const s =
                                                                             sines.data() + angle * half;
                   for (std::size_t k = 0; k < half; ++k) {
                     const std::size_t first = rotation.interleaved ? 2 * k : k;
                     const std::size_t second = rotation.interleaved ? first + 1 : k + half;
                     out[first] = c[k] * in[first] - s[k] * in[second];
                     out[second] = s[k] * in[first] + c[k] * in[second];
                   }
                   std::copy(in + dim, in + x.depth, out + dim);
                 }
               });
}

Kernel rotary_embedding(const NodeFacts& facts) {
  const RotaryAttributes rotation{.heads = facts.int_or("num_heads", 0),
                                  .dim = facts.int_or("rotary_embedding_dim", 0),
                                  .interleaved = facts.int_or("interleaved", 0) != 0};
  return [rotation](Call& call) { rotate(call, rotation); };
}

}  // namespace

std::span<const OperatorRow> attention_operators() {
  static constexpr OperatorRow kRows[] = {
      {"Attention", attention, Takes::kFloats},
      {"RotaryEmbedding", rotary_embedding, Takes::kFloats},
  };
  return kRows;
}

}  // namespace crumb::runtime
