// Unique, NonMaxSuppression, TfIdfVectorizer: results whose content is found by searching, on the CPU.
#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "graph/boxes.h"
#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/shapes.h"

namespace crumb::libtorch {
namespace {

using graph::ElementType;

/// The classes of equal slices along the first axis, in ascending order.
struct Classes {
  at::Tensor of_slice;  ///< the class of every slice
  std::int64_t count;
};

Classes classes_of(at::Tensor x, ElementType type) {
  const std::int64_t slices = x.size(0);
  if (x.numel() == 0) {  // slices without elements are all equal
    return {at::zeros({slices}, at::TensorOptions().dtype(at::kLong)), std::min<std::int64_t>(slices, 1)};
  }
  if (type == ElementType::kUint64) x = x.bitwise_xor(at::Scalar(std::numeric_limits<std::int64_t>::min()));
  if (x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16) x = x.to(at::kFloat);
  if (x.scalar_type() == at::kBool) x = x.to(at::kByte);
  if (x.dim() == 1) {
    const auto [values, inverse, counts] = at::_unique2(x, true, true, false);
    return {inverse, values.size(0)};
  }
  const auto [values, inverse, counts] = at::unique_dim(x, 0, true, true, false);
  return {inverse, values.size(0)};
}

Outputs unique(const Call& call) {
  at::Tensor x = call.tensor(0);
  std::int64_t axis = 0;
  if (call.node().has("axis")) {
    axis = usual_axis(call, call.int_or("axis", 0), x.dim());
  } else {
    x = x.reshape({-1});
  }
  const Classes classes = classes_of(x.detach().to(at::kCPU).movedim(axis, 0).contiguous(), call.type(0));
  const at::Tensor inverse = classes.of_slice.contiguous();
  const auto* of_slice = inverse.const_data_ptr<std::int64_t>();
  const auto many = static_cast<std::size_t>(classes.count);
  Ints first(many, -1), counts(many), order = first_axes(classes.count), rank(many);
  for (std::int64_t i = 0; i < inverse.numel(); ++i) {
    const auto of = static_cast<std::size_t>(of_slice[i]);
    if (first[of] < 0) first[of] = i;
    ++counts[of];
  }
  if (call.int_or("sorted", 1) == 0) {
    std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return first[static_cast<std::size_t>(a)] < first[static_cast<std::size_t>(b)];
    });
  }
  for (std::size_t i = 0; i < many; ++i)
    rank[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  const at::Tensor places = at::tensor(order, at::kLong);
  const at::Tensor indices = at::tensor(first, at::kLong).index_select(0, places);
  const auto whole = [&](const at::Tensor& values) {
    return TypedTensor{values.to(x.device()), ElementType::kInt64};
  };
  return {{x.index_select(axis, indices.to(x.device())), call.type(0)},
          whole(indices),
          whole(at::tensor(rank, at::kLong).index_select(0, inverse)),
          whole(at::tensor(counts, at::kLong).index_select(0, places))};
}

std::optional<float> scalar_of(const Call& call, std::size_t i) {
  if (!call.has(i) || call.tensor(i).numel() == 0) return std::nullopt;
  return call.tensor(i).reshape({-1})[0].item<float>();
}

Outputs non_max_suppression(const Call& call) {
  expect_rank(call, 0, 3);
  expect_rank(call, 1, 3);
  const at::Tensor boxes = call.tensor(0).detach().to(at::kCPU, at::kFloat).contiguous();
  const at::Tensor scores = call.tensor(1).detach().to(at::kCPU, at::kFloat).contiguous();
  const std::int64_t batches = boxes.size(0), many = boxes.size(1), classes = scores.size(1);
  if (boxes.size(2) != 4 || scores.size(0) != batches || scores.size(2) != many) {
    call.fail("expected boxes [batches, boxes, 4] and scores [batches, classes, boxes], found " +
              text_of(call.in(0)) + " and " + text_of(call.in(1)));
  }
  const Ints most = call.has(2) ? call.ints(2) : Ints{};
  const bool centered = call.int_or("center_point_box", 0) != 0;
  Ints found;
  std::vector<graph::Box> batch(static_cast<std::size_t>(many));
  for (std::int64_t b = 0; b < batches && !most.empty() && most[0] > 0; ++b) {
    for (std::int64_t i = 0; i < many; ++i) {
      batch[static_cast<std::size_t>(i)] =
          graph::box_of(boxes.const_data_ptr<float>() + (b * many + i) * 4, centered);
    }
    for (std::int64_t c = 0; c < classes; ++c) {
      const float* of_class = scores.const_data_ptr<float>() + (b * classes + c) * many;
      for (const std::int64_t box :
           graph::kept_boxes(batch, of_class, most[0], scalar_of(call, 3).value_or(0), scalar_of(call, 4))) {
        found.insert(found.end(), {b, c, box});
      }
    }
  }
  const at::Tensor rows = at::tensor(found, at::kLong).reshape({-1, 3});
  return one(rows.to(call.tensor(0).device()), ElementType::kInt64);
}

/// The n-grams of a pool as a tree of their items.
struct Grams {
  struct Branch {
    std::map<std::int64_t, std::size_t> next;
    std::int64_t column = -1;  ///< of the n-gram that ends here
  };
  std::vector<Branch> branches{1};

  void add(std::span<const std::int64_t> gram, std::int64_t column) {
    std::size_t at = 0;
    for (const std::int64_t item : gram) {
      const auto [next, fresh] = branches[at].next.emplace(item, branches.size());
      at = next->second;
      if (fresh) branches.emplace_back();
    }
    branches[at].column = column;
  }

  /// Counts the n-grams of `least` to `most` items that start at `start` and take every `stride`-th item.
  void count(std::span<const std::int64_t> row, std::size_t start, std::size_t stride, std::int64_t least,
             std::int64_t most, float* counts) const {
    std::size_t at = 0;
    std::int64_t length = 1;
    for (std::size_t i = start; i < row.size() && length <= most; i += stride, ++length) {
      const auto next = branches[at].next.find(row[i]);
      if (next == branches[at].next.end()) return;
      at = next->second;
      if (length >= least && branches[at].column >= 0) counts[branches[at].column] += 1;
    }
  }
};

Grams grams_of(const Call& call, const Ints& columns, std::int64_t least, std::int64_t most) {
  const Ints pool = call.node().ints_or("pool_int64s", {}), starts = call.node().ints_or("ngram_counts", {});
  Grams grams;
  std::size_t gram = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto size = static_cast<std::int64_t>(i) + 1, end = static_cast<std::int64_t>(pool.size());
    const std::int64_t next = i + 1 < starts.size() ? starts[i + 1] : end;
    if (starts[i] < 0 || next < starts[i] || next > end) {
      call.fail("ngram_counts do not divide a pool of " + std::to_string(end) + " items");
    }
    for (std::int64_t at = starts[i]; at + size <= next; at += size, ++gram) {
      if (gram >= columns.size()) call.fail("expected as many ngram_indexes as n-grams, found less");
      if (size < least || size > most) continue;
      grams.add(std::span(pool).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size)),
                columns[gram]);
    }
  }
  return grams;
}

Outputs tf_idf_vectorizer(const Call& call) {
  if (call.node().has("pool_strings")) call.fail("pools of strings are not supported");
  const at::Tensor& x = call.tensor(0);
  const Ints items = call.ints(0), columns = call.node().ints_or("ngram_indexes", {});
  if (x.dim() > 2 || columns.empty() || *std::min_element(columns.begin(), columns.end()) < 0 ||
      *std::max_element(columns.begin(), columns.end()) > (std::int64_t{1} << 40)) {
    call.fail("expected rank 1 or 2 and ngram_indexes of 0 and more, found " + text_of(call.in(0)));
  }
  const std::int64_t least = call.int_or("min_gram_length", 1), most = call.int_or("max_gram_length", 1);
  const std::int64_t width = *std::max_element(columns.begin(), columns.end()) + 1;
  const std::int64_t rows = x.dim() == 2 ? x.size(0) : 1;
  const auto length = static_cast<std::size_t>(x.dim() == 0 ? 1 : x.size(-1));
  const Grams grams = grams_of(call, columns, least, most);
  at::Tensor counts = at::zeros({rows, width}, at::TensorOptions().dtype(at::kFloat));
  const auto strides = static_cast<std::size_t>(
      std::clamp<std::int64_t>(call.int_or("max_skip_count", 0), 0, static_cast<std::int64_t>(length)) + 1);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::span row = std::span(items).subspan(static_cast<std::size_t>(r) * length, length);
    for (std::size_t stride = 1; stride <= strides; ++stride) {
      const std::int64_t from =
          stride > 1 ? std::max<std::int64_t>(least, 2) : least;  // no skips in one item
      for (std::size_t i = 0; i < length; ++i) {
        grams.count(row, i, stride, from, most, counts.data_ptr<float>() + r * width);
      }
    }
  }
  const std::string mode = call.text_or("mode", "TF");
  const auto weights = call.node().floats_or("weights", {});
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF")
    call.fail("expected mode TF, IDF or TFIDF, found another");
  if (mode == "IDF") counts = (counts > 0).to(at::kFloat);
  if (mode != "TF" && !weights.empty()) {
    expect_length(call, "weights", weights.size(), static_cast<std::int64_t>(columns.size()));
    at::Tensor of_columns = at::zeros({width}, counts.options());
    for (std::size_t i = 0; i < columns.size(); ++i) of_columns.data_ptr<float>()[columns[i]] = weights[i];
    counts = counts * of_columns;
  }
  return one(x.dim() == 2 ? counts : counts.reshape({width}), ElementType::kFloat);
}

constexpr OperatorRow kSelectionRows[] = {
    {"Unique", unique},
    {"NonMaxSuppression", non_max_suppression},
    {"TfIdfVectorizer", tf_idf_vectorizer},
};

}  // namespace

std::span<const OperatorRow> selection_operators() { return kSelectionRows; }

}  // namespace crumb::libtorch
