// Attention, RotaryEmbedding, LinearAttention.
#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/widen.h"

namespace crumb::libtorch {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// [batch, steps, heads * size] as [batch, heads, steps, size].
at::Tensor by_heads(const Call& call, const at::Tensor& x, std::int64_t heads, const char* attribute) {
  if (x.dim() != 3 || heads < 1 || x.size(2) % heads != 0) {
    call.fail(std::string(attribute) + " is " + std::to_string(heads) +
              ", which does not split an input of " + graph::text_of(x.sizes().vec()) + " into heads");
  }
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

at::Tensor heads_together(const at::Tensor& x) { return x.transpose(1, 2).flatten(2); }

/// Each head as often as there are query heads to it.
at::Tensor for_each_query(const Call& call, const at::Tensor& x, std::int64_t query_heads) {
  const std::int64_t heads = x.size(1);
  if (heads == query_heads) return x;
  if (heads < 1 || query_heads % heads != 0) {
    call.fail(std::to_string(query_heads) + " query heads are no multiple of " + std::to_string(heads) +
              " key and value heads");
  }
  return x.repeat_interleave(query_heads / heads, 1);
}

/// The mask as something to add, [..., total]: where it is shorter, nothing behind it takes part.
at::Tensor mask_to_add(const Call& call, const at::TensorOptions& options, std::int64_t total) {
  const at::Tensor& given = call.tensor(3);
  at::Tensor mask = given.scalar_type() == at::kBool
                        ? at::zeros(given.sizes(), options).masked_fill(given.logical_not(), -kInfinity)
                        : given.to(options.dtype());
  if (mask.dim() == 0) return mask;
  if (mask.size(-1) > total) {
    call.fail("the mask " + text_of(call.in(3)) + " is for more than " + std::to_string(total) + " keys");
  }
  return mask.size(-1) < total ? at::constant_pad_nd(mask, {0, total - mask.size(-1)}, -kInfinity) : mask;
}

/// What is added to the scores; not defined where nothing is.
at::Tensor score_bias(const Call& call, const at::Tensor& q, std::int64_t total, std::int64_t past) {
  at::Tensor bias;
  const auto add = [&](const at::Tensor& more) { bias = bias.defined() ? bias + more : more; };
  if (call.has(3)) add(mask_to_add(call, q.options(), total));
  const at::Tensor keys = at::arange(total, q.options().dtype(at::kLong));
  const auto closed = [&](const at::Tensor& where) {
    return at::zeros(where.sizes(), q.options()).masked_fill(where, -kInfinity);
  };
  if (call.int_or("is_causal", 0) != 0) {
    const at::Tensor queries = at::arange(q.size(2), q.options().dtype(at::kLong)).unsqueeze(1);
    add(closed(keys > queries + past));
  }
  if (call.has(6)) {
    const at::Tensor used = call.tensor(6).to(at::kLong);
    if (used.dim() != 1 || used.size(0) != q.size(0)) {
      call.fail("nonpad_kv_seqlen is " + text_of(call.in(6)) + ", expected one for each of " +
                std::to_string(q.size(0)));
    }
    add(closed(keys >= used.reshape({-1, 1, 1, 1})));
  }
  return bias;
}

/// The type in which the softmax is computed: never less than float32 for half precision.
at::ScalarType softmax_type(const Call& call, at::ScalarType scores) {
  const std::int64_t stated = call.int_or("softmax_precision", 0);
  if (stated == 0) return scores;
  const auto type = graph::element_type_of(stated);
  if (!type || !graph::is_float(*type) || graph::info(*type).bits < 16) {
    call.fail("softmax_precision is " + std::to_string(stated) + ", which is no float type");
  }
  return *type == graph::ElementType::kDouble ? at::kDouble : scores;
}

Outputs attention(const Call& call) {
  at::Tensor q = widened(call.tensor(0)), k = widened(call.tensor(1)), v = widened(call.tensor(2));
  v = v.to(at::promote_types(q.scalar_type(), v.scalar_type()));
  const bool packed = q.dim() == 3;
  if (packed) {
    q = by_heads(call, q, call.int_or("q_num_heads", 0), "q_num_heads");
    k = by_heads(call, k, call.int_or("kv_num_heads", 0), "kv_num_heads");
    v = by_heads(call, v, call.int_or("kv_num_heads", 0), "kv_num_heads");
  }
  if (q.dim() != 4 || k.dim() != 4 || v.dim() != 4) {
    call.fail("expected Q, K and V of 3 or of 4 axes, found " + text_of(call.in(0)) + ", " +
              text_of(call.in(1)) + ", " + text_of(call.in(2)));
  }
  if (call.has(4) != call.has(5)) call.fail("past_key and past_value go together");
  const std::int64_t past = call.has(4) ? call.tensor(4).size(2) : 0;
  if (call.has(4)) {
    k = at::cat({widened(call.tensor(4)), k}, 2);
    v = at::cat({widened(call.tensor(5)).to(v.scalar_type()), v}, 2);
  }
  Outputs outputs(4);
  if (call.wants(1)) outputs[1] = wrapped(k, call.type(1));
  if (call.wants(2)) outputs[2] = wrapped(v, call.type(2));
  k = for_each_query(call, k, q.size(1));
  v = for_each_query(call, v, q.size(1));

  const double scale =
      call.node().has("scale") ? call.float_or("scale", 1) : 1 / std::sqrt(static_cast<double>(q.size(3)));
  const double half = std::sqrt(scale);
  const std::int64_t mode = call.int_or("qk_matmul_output_mode", 0);
  at::Tensor scores = at::matmul(q * half, (k * half).transpose(2, 3));
  std::vector<at::Tensor> stages = {scores};
  if (const double cap = call.float_or("softcap", 0); cap > 0) scores = at::tanh(scores / cap) * cap;
  stages.push_back(scores);
  if (const at::Tensor bias = score_bias(call, q, k.size(2), past); bias.defined()) scores = scores + bias;
  stages.push_back(scores);
  const at::ScalarType wide = softmax_type(call, scores.scalar_type());
  const at::Tensor weights = at::softmax(scores.to(wide), -1).to(v.scalar_type());
  stages.push_back(weights);
  if (call.wants(3)) {
    if (mode < 0 || mode > 3) call.fail("qk_matmul_output_mode is " + std::to_string(mode));
    outputs[3] = wrapped(stages[static_cast<std::size_t>(mode)], call.type(0));
  }
  const at::Tensor y = at::matmul(weights, v);
  outputs[0] = wrapped(packed ? heads_together(y) : y, call.type(0));
  return outputs;
}

Outputs rotary_embedding(const Call& call) {
  const at::Tensor x = widened(call.tensor(0));
  const bool packed = x.dim() == 3;
  // [batch, heads, steps, size]
  const at::Tensor heads = packed ? by_heads(call, x, call.int_or("num_heads", 0), "num_heads") : x;
  if (heads.dim() != 4) call.fail("expected an input of 3 or 4 axes, found " + text_of(call.in(0)));
  std::int64_t rotated_size = call.int_or("rotary_embedding_dim", 0);
  if (rotated_size == 0) rotated_size = heads.size(3);
  if (rotated_size < 0 || rotated_size > heads.size(3) || rotated_size % 2 != 0) {
    call.fail("cannot rotate " + std::to_string(rotated_size) + " of " + std::to_string(heads.size(3)) +
              " elements");
  }
  const auto angles = [&](std::size_t input) {
    at::Tensor cache = widened(call.tensor(input));
    if (call.has(3)) {
      const at::Tensor ids = call.tensor(3).to(at::kLong);
      if (cache.dim() != 2)
        call.fail("with position_ids, expected a cache of 2 axes, found " + text_of(call.in(input)));
      cache = cache.index_select(0, ids.flatten()).reshape({ids.size(0), -1, cache.size(1)});
    }
    if (cache.dim() != 3 || cache.size(2) != rotated_size / 2) {
      call.fail("the cache " + text_of(call.in(input)) + " is not for " + std::to_string(rotated_size / 2) +
                " angles");
    }
    return cache.unsqueeze(1);
  };
  const at::Tensor cosine = angles(1), sine = angles(2);
  const at::Tensor part = heads.slice(3, 0, rotated_size);
  const bool interleaved = call.int_or("interleaved", 0) != 0;
  const at::Tensor a = interleaved ? part.slice(3, 0, rotated_size, 2) : part.slice(3, 0, rotated_size / 2);
  const at::Tensor b = interleaved ? part.slice(3, 1, rotated_size, 2) : part.slice(3, rotated_size / 2);
  const at::Tensor real = cosine * a - sine * b, imaginary = sine * a + cosine * b;
  const at::Tensor rotated =
      interleaved ? at::stack({real, imaginary}, -1).flatten(3) : at::cat({real, imaginary}, 3);
  const at::Tensor y = at::cat({rotated, heads.slice(3, rotated_size)}, 3);
  return like_input(call, packed ? heads_together(y) : y);
}

/// S_t = decay * S_(t-1) + k_t (x) v_t, read by the queries; with the delta rule v_t is what S does not hold
/// yet.
Outputs linear_attention(const Call& call) {
  const std::string rule = call.text_or("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta";
  const bool delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear") {
    call.fail("update_rule is \"" + rule + "\", expected linear, gated, delta or gated_delta");
  }
  if (gated != call.has(4)) call.fail("update_rule " + rule + (gated ? " needs" : " takes no") + " decay");
  if (delta != call.has(5)) call.fail("update_rule " + rule + (delta ? " needs" : " takes no") + " beta");
  const std::int64_t query_heads = call.int_or("q_num_heads", 0), heads = call.int_or("kv_num_heads", 0);
  const auto split = [&](std::size_t input, std::int64_t count, const char* attribute) {
    return by_heads(call, widened(call.tensor(input)), count, attribute);
  };
  const at::Tensor q = split(0, query_heads, "q_num_heads");
  const at::Tensor k = split(1, heads, "kv_num_heads"), v = split(2, heads, "kv_num_heads");
  const at::Tensor decay = gated ? split(4, heads, "kv_num_heads").exp() : at::Tensor();
  at::Tensor beta;
  if (delta)
    beta = split(5, call.tensor(5).dim() == 3 && call.tensor(5).size(2) == 1 ? 1 : heads, "kv_num_heads");
  at::Tensor state = call.has(3) ? widened(call.tensor(3))
                                 : at::zeros({k.size(0), heads, k.size(3), v.size(3)}, k.options());
  double scale = call.float_or("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
  std::vector<at::Tensor> outputs;
  for (std::int64_t t = 0; t < k.size(2); ++t) {
    const at::Tensor key = k.select(2, t).unsqueeze(3);  // [batch, heads, d_k, 1]
    at::Tensor value = v.select(2, t).unsqueeze(2);      // [batch, heads, 1, d_v]
    if (gated) state = state * decay.select(2, t).unsqueeze(3);
    if (delta) {
      value = beta.select(2, t).unsqueeze(3) * (value - at::matmul(key.transpose(2, 3), state));
    }
    state = state + key * value;
    outputs.push_back(at::matmul(q.select(2, t).unsqueeze(2), for_each_query(call, state, query_heads)) *
                      scale);
  }
  const at::Tensor y =
      outputs.empty() ? at::zeros({q.size(0), query_heads, 0, v.size(3)}, q.options()) : at::cat(outputs, 2);
  return {wrapped(heads_together(y), call.type(0)),
          wrapped(state, call.has(3) ? call.type(3) : call.type(0))};
}

constexpr OperatorRow kAttentionRows[] = {
    {"Attention", attention},
    {"RotaryEmbedding", rotary_embedding},
    {"LinearAttention", linear_attention},
};

}  // namespace

std::span<const OperatorRow> attention_operators() { return kAttentionRows; }

}  // namespace crumb::libtorch
