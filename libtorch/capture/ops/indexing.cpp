// Parts of tensors by position.
#include <limits>

#include "libtorch/capture/ops/families.h"

namespace crumb::libtorch {
namespace {

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

void slice(Op& op) {
  const Seen x = op.seen("self");
  const std::int64_t axis = op.axis("dim", x.rank()), step = op.integer_or("step", 1);
  const Number size = x.sizes[static_cast<std::size_t>(axis)];
  const Number start = op.has("start") ? op.number("start") : Number{0, 0};
  Number end = op.has("end") ? op.number("end") : Number{kEnd, kEnd};
  if (end == size || (end.first >= size.first && end.second >= size.second)) end = {kEnd, kEnd};
  if (start.is(0) && end.is(kEnd) && step == 1) return op.set(op.tensor("self"));
  op.set(op.net.add("Slice", {op.tensor("self"), op.net.sizes({start}), op.net.sizes({end}),
                              op.net.ints({axis}), op.net.ints({step})}));
}

void narrow(Op& op) {
  const std::int64_t axis = op.axis("dim", op.seen("self").rank());
  const Number start = op.number("start"), length = op.number("length");
  const Number end = {start.first + length.first, start.second + length.second};
  op.set(op.net.add("Slice",
                    {op.tensor("self"), op.net.sizes({start}), op.net.sizes({end}), op.net.ints({axis})}));
}

void select(Op& op) {
  const Seen x = op.seen("self");
  const std::int64_t axis = op.axis("dim", x.rank());
  const Number index = op.number("index"), size = x.sizes[static_cast<std::size_t>(axis)];
  const bool last = !index.fixed() && index.first == size.first - 1 && index.second == size.second - 1;
  const std::string at = index.fixed() ? op.net.index(index.first)
                         : last        ? op.net.index(-1)
                                       : op.net.squeeze(op.net.sizes({index}), {0});
  op.set(op.net.add("Gather", {op.tensor("self"), at}, {{"axis", axis}}));
}

void index_select(Op& op) {
  op.set(op.net.add("Gather", {op.tensor("self"), op.tensor("index")},
                    {{"axis", op.axis("dim", op.seen("self").rank())}}));
}

void gather(Op& op) {
  op.set(op.net.add("GatherElements", {op.tensor("self"), op.tensor("index")},
                    {{"axis", op.axis("dim", op.seen("self").rank())}}));
}

void scatter(Op& op, const char* reduction) {
  if (op.has("reduce")) op.fail("its 'reduce'");
  const std::string index = op.tensor("index");
  std::string source;
  if (op.has("src")) {
    source = op.operand("src", op.result().type);
  } else {
    source = op.net.add("Expand", {op.operand("value", op.result().type), op.net.add("Shape", {index})});
  }
  op.set(
      op.net.add("ScatterElements", {op.self(), index, source},
                 {{"axis", op.axis("dim", op.seen("self").rank())}, {"reduction", std::string(reduction)}}));
}
void scatter_set(Op& op) { scatter(op, "none"); }
void scatter_add(Op& op) { scatter(op, "add"); }

void embedding(Op& op) {
  op.set(op.net.add("Gather", {op.tensor("weight"), op.tensor("indices")}, {{"axis", std::int64_t{0}}}));
}

/// x[:, i], x[i, j]: indices at neighbouring axes; those that do not begin at axis 0 are a single one.
void index(Op& op) {
  Network& net = op.net;
  const Names indices = op.tensors("indices");
  const std::vector<Seen> seen = op.seen_all("indices");
  std::vector<std::size_t> there;
  std::size_t rank = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i].empty()) continue;
    if (seen[i].type == at::kBool || seen[i].type == at::kByte) {
      op.fail("a mask as index gives a shape that depends on the data");
    }
    there.push_back(i);
    rank = std::max(rank, seen[i].sizes.size());
  }
  if (there.empty()) return op.set(op.tensor("self"));
  if (there.size() == 1) {
    return op.set(net.add("Gather", {op.tensor("self"), indices[there[0]]},
                          {{"axis", static_cast<std::int64_t>(there[0])}}));
  }
  if (there.back() != there.size() - 1) op.fail("several indices that do not begin with axis 0");
  std::vector<Number> shape(rank, Number{1, 1});
  for (const std::size_t i : there) {
    for (std::size_t k = 0; k < seen[i].sizes.size(); ++k) {
      Number& size = shape[rank - seen[i].sizes.size() + k];
      if (size.is(1)) size = seen[i].sizes[k];
    }
  }
  Names parts;
  const std::string target = net.sizes(shape);
  for (const std::size_t i : there) {
    const std::string whole = net.add("Expand", {net.cast(indices[i], at::kLong), target});
    parts.push_back(net.unsqueeze(whole, {static_cast<std::int64_t>(rank)}));
  }
  const std::string tuples = net.add("Concat", parts, {{"axis", static_cast<std::int64_t>(rank)}});
  op.set(net.add("GatherND", {op.tensor("self"), tuples}));
}

std::string count_of(Op& op, const Number& count) { return op.net.sizes({count}); }

void topk(Op& op) {
  const std::int64_t axis = op.axis("dim", op.seen("self").rank());
  const Names both = op.net.add_many("TopK", {op.tensor("self"), count_of(op, op.number("k"))},
                                     {{"axis", axis},
                                      {"largest", std::int64_t{op.flag("largest", true) ? 1 : 0}},
                                      {"sorted", std::int64_t{op.flag("sorted", true) ? 1 : 0}}},
                                     2);
  op.set(both[0]);
  op.set(both[1], 1);
}

Names sorted(Op& op) {
  const Seen x = op.seen("self");
  const std::int64_t axis = op.axis("dim", x.rank());
  return op.net.add_many("TopK", {op.tensor("self"), count_of(op, x.sizes[static_cast<std::size_t>(axis)])},
                         {{"axis", axis}, {"largest", std::int64_t{op.flag("descending") ? 1 : 0}}}, 2);
}
void sort(Op& op) {
  const Names both = sorted(op);
  op.set(both[0]);
  op.set(both[1], 1);
}
void argsort(Op& op) { op.set(sorted(op)[1]); }

void triangle(Op& op, bool upper) {
  op.set(op.net.add("Trilu", {op.tensor("self"), op.net.index(op.integer_or("diagonal", 0))},
                    {{"upper", std::int64_t{upper ? 1 : 0}}}));
}
void triu(Op& op) { triangle(op, true); }
void tril(Op& op) { triangle(op, false); }

constexpr ConversionRow kIndexingRows[] = {
    {"aten::slice", slice},
    {"aten::narrow", narrow},
    {"aten::select", select},
    {"aten::index_select", index_select},
    {"aten::gather", gather},
    {"aten::scatter", scatter_set},
    {"aten::scatter_add", scatter_add},
    {"aten::embedding", embedding},
    {"aten::index", index},
    {"aten::topk", topk},
    {"aten::sort", sort},
    {"aten::argsort", argsort},
    {"aten::triu", triu},
    {"aten::tril", tril},
};

}  // namespace

std::span<const ConversionRow> indexing_conversions() { return kIndexingRows; }

}  // namespace crumb::libtorch
