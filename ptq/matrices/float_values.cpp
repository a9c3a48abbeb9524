#include "ptq/matrices/float_values.h"

#include <algorithm>

#include "base/files/interrupt.h"
#include "graph/part.h"

namespace crumb::ptq {

using graph::Tensor;

void visit_float_values(const Setting& setting, const std::vector<std::string>& names,
                        const std::function<void(const std::map<std::string, Tensor>&)>& see) {
  std::vector<std::string> made, taken;
  for (const std::string& name : names) {
    const bool is_input = std::ranges::find(setting.graph.inputs, name) != setting.graph.inputs.end();
    if (!is_input && std::ranges::find(made, name) == made.end()) made.push_back(name);
  }
  std::unique_ptr<graph::Executable> network;
  if (!made.empty()) {
    graph::Graph part = graph::part_of(setting.graph, {}, made);
    taken = part.inputs;
    network = setting.engine->prepare(std::move(part));
  }
  setting.samples([&](const std::vector<Tensor>& sample) {
    check_interrupt();
    std::map<std::string, Tensor> known;
    for (std::size_t i = 0; i < sample.size(); ++i) known[setting.graph.inputs[i]] = sample[i];
    if (network) {
      std::vector<Tensor> given;
      for (const std::string& name : taken) given.push_back(known.at(name));
      std::vector<Tensor> values = network->run(given);
      for (std::size_t i = 0; i < values.size(); ++i) known[made[i]] = std::move(values[i]);
    }
    see(known);
  });
}

}  // namespace crumb::ptq
