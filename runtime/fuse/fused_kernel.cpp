#include "runtime/fuse/fused_kernel.h"

#include <map>
#include <set>

namespace crumb::runtime {

FusedKernel::FusedKernel(std::vector<graph::Node> nodes, std::vector<Kernel> kernels)
    : nodes_(std::move(nodes)), kernels_(std::move(kernels)), program_(nodes_) {
  std::map<std::string, std::size_t> places;
  for (const std::string& value : program_.inputs()) places.emplace(value, places.size());
  for (const graph::Node& node : nodes_) {
    Part& part = parts_.emplace_back();
    for (const std::string& value : node.inputs) part.inputs.push_back(places.at(value));
    places.emplace(node.outputs[0], places.size());
  }
  std::set<std::size_t> wanted;
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
    part->last.resize(part->inputs.size());
    for (std::size_t i = part->inputs.size(); i-- > 0;)
      part->last[i] = static_cast<char>(wanted.insert(part->inputs[i]).second);
  }
}

void FusedKernel::operator()(Call& call) const {
  if (program_.run(call)) return;
  std::vector<Array> values;
  values.reserve(call.inputs() + parts_.size());  // so that pointers to elements stay valid
  for (std::size_t i = 0; i < call.inputs(); ++i) values.push_back(call.take(i));
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    std::vector<Array> made(1);
    std::vector<Array*> arguments;
    for (const std::size_t value : part.inputs) arguments.push_back(&values[value]);
    Call one(nodes_[i], arguments, part.last, made, call.threads());
    kernels_[i](one);
    for (std::size_t k = 0; k < part.inputs.size(); ++k) {
      if (part.last[k] != 0) values[part.inputs[k]] = {};
    }
    if (made[0].alone()) made[0].round();
    values.push_back(std::move(made[0]));
  }
  call.give(0, std::move(values.back()));
}

}  // namespace crumb::runtime
