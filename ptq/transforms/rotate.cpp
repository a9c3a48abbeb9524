#include "ptq/transforms/rotate.h"

#include <Eigen/Core>
#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "base/threads/parallel.h"
#include "graph/edit.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/passes/fold_norms.h"
#include "ptq/matrices/orthogonal_matrix.h"
#include "ptq/rounding/final_constants.h"
#include "ptq/rounding/rounding_errors.h"
#include "ptq/transforms/rotation_sites.h"

namespace crumb::ptq {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using graph::Graph;
using graph::Node;
using graph::Tensor;
using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr std::size_t kSlices = 256;  // multiplied at a time, whatever the number of threads

/// Multiplies each slice along the constant's axis by R, block by block, and rounds once.
Tensor rotated(const Tensor& tensor, const RotatedConstant& where, const MatrixXd& rotation, int threads) {
  std::vector<float> values = tensor.to_floats();
  const auto length = static_cast<Index>(tensor.shape()[where.axis]);
  const Index others = static_cast<Index>(values.size()) / std::max<Index>(length, 1);
  const bool is_last = where.axis + 1 == tensor.shape().size();
  Eigen::Map<Rows> all(values.data(), is_last ? others : length, is_last ? length : others);
  parallel_for(static_cast<std::size_t>(others), kSlices, threads, [&](std::size_t begin, std::size_t end) {
    const auto from = static_cast<Index>(begin), count = static_cast<Index>(end - begin);
    for (std::size_t i = 0; i < where.blocks; ++i) {
      const Index at = static_cast<Index>(where.first) + static_cast<Index>(i) * rotation.rows();
      if (is_last) {
        auto part = all.block(from, at, count, rotation.rows());
        const MatrixXd rotated = part.cast<double>() * rotation;
        part = rotated.cast<float>();
      } else {
        auto part = all.block(at, from, rotation.rows(), count);
        const MatrixXd rotated = rotation.transpose() * part.cast<double>();
        part = rotated.cast<float>();
      }
    }
  });
  return Tensor::floats(tensor.shape(), values);
}

Tensor tensor_of(const MatrixXd& matrix) {
  const Rows lying = matrix.cast<float>();
  return Tensor::floats({lying.rows(), lying.cols()}, {lying.data(), static_cast<std::size_t>(lying.size())});
}

class RotationStage {
 public:
  RotationStage(const Stage& stage, Setting& setting)
      : setting_(setting), graph_(setting.graph), seed_(static_cast<std::uint64_t>(stage.value("seed"))) {}

  void add(const RotationSites& found) {
    for (const RotationSite& site : found.sites) add(site);
    for (const std::string& why : found.refusals) refuse(why);
  }

  void add(const RotationSite& site) {
    if (may_rotate(site)) sites_.push_back(site);
  }

  /// Returns the sites whose constants are still float; notes say that others stay.
  std::vector<RotationSite> open_ones(std::vector<RotationSite> values) {
    std::erase_if(values, [&](const RotationSite& site) { return !may_rotate(site); });
    return values;
  }

  const std::vector<RotationSite>& sites() const { return sites_; }
  const std::set<std::string>& touched() const { return touched_; }

  void require_one(const Stage& stage) const {
    if (sites_.empty())
      throw Error("the stage " + stage.name + " finds nothing to rotate" +
                  (refusals_.empty() ? ": " + nothing_found(stage) : ": " + *refusals_.begin()));
  }

  /// Multiplies constants, and adds the products behind norms whose gains stay.
  void rotate_sites() {
    for (const RotationSite& site : sites_) {
      const MatrixXd& rotation = matrix(site.size);
      rotate_constants(site, rotation);
      for (const NormInside& norm : site.norms) put_gain_behind(norm, rotation);
    }
  }

  /// Adds a product by blocks in front of the values' consumers.
  void rotate_online(const std::vector<RotationSite>& values) {
    for (const RotationSite& site : values) {
      const MatrixXd& rotation = matrix(site.size);
      rotate_constants(site, rotation);
      put_before(site, tensor_of(rotation));
      for (graph::PlannedEdge& edge : setting_.plan.edges)
        if (edge.value == site.value) edge.take_sign();  // rotated values have both signs
    }
    if (!values.empty())
      notes_.push_back(std::to_string(values.size()) +
                       " values are rotated as the network runs, in blocks of " +
                       std::to_string(values[0].size) + " channels");
  }

  std::vector<std::string> notes() const {
    std::vector<std::string> all = notes_;
    for (const std::string& why : refusals_) all.push_back(why + ", which is not rotated");
    return all;
  }

 private:
  static std::string nothing_found(const Stage& stage) {
    const std::string block = std::to_string(static_cast<std::size_t>(stage.value("online")));
    return "no residual stream and no attention" +
           (block == "0" ? ""
                         : ", and no value before a product that has a multiple of " + block + " channels");
  }

  bool may_rotate(const RotationSite& site) {
    const auto with_codes = std::ranges::find_if(
        site.constants, [&](const RotatedConstant& constant) { return has_codes(setting_, constant.name); });
    if (with_codes == site.constants.end()) return true;
    refuse("constant " + quote_text(with_codes->name) + " has codes already");
    return false;
  }

  void refuse(const std::string& why) {
    if (std::ranges::find(refusals_, why) == refusals_.end()) refusals_.push_back(why);
  }

  const MatrixXd& matrix(std::size_t size) {
    const auto [at, is_new] = matrices_.try_emplace(size);
    if (is_new) at->second = drawn_rotation(size, seed_);
    return at->second;
  }

  void rotate_constants(const RotationSite& site, const MatrixXd& rotation) {
    for (const RotatedConstant& constant : site.constants) {
      check_interrupt();
      Tensor& tensor = graph_.initializers.at(constant.name);
      tensor = rotated(tensor, constant, rotation, setting_.threads);
      touched_.insert(constant.name);
    }
  }

  /// Gives the norm's output a new name; the product computed from it gets the old one.
  std::string move_output(std::size_t node, const std::string& value) {
    const graph::Value* known = graph_.find(value);
    const std::string before =
        graph::add_value(graph_, value + ".unrotated", known ? *known : graph::Value{});
    std::ranges::replace(graph_.nodes[node].outputs, value, before);
    setting_.plan.follow({.sum = value, .product = before, .taker = {}});
    return before;
  }

  void put_gain_behind(const NormInside& norm, const MatrixXd& rotation) {
    const Tensor gain = *graph_.constant(norm.gain);
    const std::vector<float> values = gain.to_floats();
    const Eigen::VectorXd gains =
        Eigen::Map<const Eigen::VectorXf>(values.data(), static_cast<Index>(values.size())).cast<double>();
    const Tensor product = tensor_of(rotation.transpose() * gains.asDiagonal() * rotation);
    const std::string value = graph_.nodes[norm.node].outputs[0], name = graph_.nodes[norm.node].name;
    const Tensor ones = Tensor::floats(gain.shape(), std::vector<float>(values.size(), 1.0F));
    if (graph::Links(graph_).consumers(norm.gain).size() == 1) {
      graph_.initializers[norm.gain] = ones;
    } else {
      graph_.nodes[norm.node].inputs[1] = graph::add_constant(graph_, norm.gain, ones);
    }
    const std::string before = move_output(norm.node, value);
    const std::string matrix = graph::add_constant(graph_, name + ".rotation.weight", product);
    put({.name = {}, .op = "MatMul", .inputs = {before, matrix}, .outputs = {value}}, name + ".rotation");
    notes_.push_back("the gain of " + quote_text(name) + " becomes a product of " +
                     std::to_string(product.bytes().size()) +
                     " bytes in floats: what takes it is the table of embeddings, too");
  }

  void put_before(const RotationSite& site, const Tensor& rotation) {
    const std::string& value = site.value;
    const graph::Shape shape = *graph_.shape_of(value);
    const std::size_t producer = graph::Links(graph_).producer(value);
    if (online_.empty()) online_ = graph::add_constant(graph_, "rotation_of_blocks", rotation);
    std::vector<std::int64_t> split(shape.size() - 1, 0), joined = split;
    const auto size = static_cast<std::int64_t>(site.size);
    split.insert(split.end(), {shape.back().size / size, size});
    joined.push_back(shape.back().size);
    const std::string before = move_output(producer, value);
    const auto make = [&](const std::string& op, const std::string& what, const std::string& x,
                          const std::string& y) {
      const std::string made = graph_.unused_value_name(value + what);
      graph_.values[made] = {};
      put({.name = {}, .op = op, .inputs = {x, y}, .outputs = {made}}, made);
      return made;
    };
    const auto shape_constant = [&](const char* requested, const std::vector<std::int64_t>& sizes) {
      return graph::add_constant(graph_, value + requested,
                                 Tensor::ints({static_cast<std::int64_t>(sizes.size())}, sizes));
    };
    const std::string blocks = make("Reshape", ".blocks", before, shape_constant(".blocks_shape", split));
    const std::string rotated = make("MatMul", ".turned", blocks, online_);
    put({.name = {},
         .op = "Reshape",
         .inputs = {rotated, shape_constant(".joined_shape", joined)},
         .outputs = {value}},
        value + ".joined");
  }

  void put(Node node, const std::string& requested) {
    node.name = graph_.unused_node_name(requested);
    node.version = graph_.opset();
    graph_.nodes.push_back(std::move(node));
  }

  Setting& setting_;
  Graph& graph_;
  std::uint64_t seed_;
  std::vector<RotationSite> sites_;
  std::vector<std::string> refusals_, notes_;
  std::map<std::size_t, MatrixXd> matrices_;  ///< by size
  std::set<std::string> touched_;
  std::string online_;  ///< its constant
};

/// Folds gains of norms between a stream and the matrices that are rotated with it into these; other norms
/// stay as they are.
void fold_norms_of_streams(Graph& graph) {
  std::set<std::string> rotated;
  for (const RotationSite& site : residual_streams(graph).sites)
    for (const RotatedConstant& constant : site.constants) rotated.insert(constant.name);
  graph = graph::fold_norms_where(std::move(graph), [&](const graph::NormFold& fold) {
    return std::ranges::any_of(
        fold.matrices, [&](const graph::NormMatrix& matrix) { return rotated.contains(matrix.name); });
  });
}

}  // namespace

StageReport rotate(const Stage& stage, Setting& setting) {
  const auto before = rounding_errors(setting);
  const auto block = static_cast<std::size_t>(stage.value("online"));
  if (stage.value("streams") != 0) fold_norms_of_streams(setting.graph);
  RotationStage rotation(stage, setting);
  if (stage.value("streams") != 0) rotation.add(residual_streams(setting.graph));
  if (stage.value("heads") != 0) rotation.add(attention_heads(setting.graph));
  std::vector<RotationSite> online;
  if (block > 0) online = rotation.open_ones(values_before_products(setting.graph, block, rotation.sites()));
  if (online.empty()) rotation.require_one(stage);
  rotation.rotate_sites();
  rotation.rotate_online(online);
  setting.graph = graph::infer_shapes(graph::sorted(std::move(setting.graph)));
  StageReport report = report_of_matrices(stage, setting, rotation.touched(), before);
  report.notes = rotation.notes();
  return report;
}

}  // namespace crumb::ptq
