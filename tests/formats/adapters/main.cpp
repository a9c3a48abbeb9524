// Adapters read and written: takes a line of JSON for each, {"in", "head_size"} and perhaps "as" ("peft", "gguf" or
// "floats": a safetensors file of MODULE.down and MODULE.up in F32), "out", "dtype", "base", "task", "model_type", and prints
// {"base", "updates": [{"module", "rank", "in", "out", "scale"}]} or {"error"}. tests/formats/adapters/test_*.py run it.
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "formats/adapters/gguf_adapter.h"
#include "formats/adapters/peft.h"
#include "formats/adapters/read_adapter.h"
#include "formats/safetensors/safetensors.h"

namespace {

using Json = nlohmann::ordered_json;

void write_floats(const crumb::Adapter& adapter, const std::string& path) {
  std::map<std::string, const std::vector<float>*> values;
  std::vector<crumb::TensorDescription> tensors;
  for (const crumb::LowRankUpdate& update : adapter.updates) {
    tensors.push_back({update.module + ".down", crumb::DType::kF32, {update.rank, update.in}});
    tensors.push_back({update.module + ".up", crumb::DType::kF32, {update.out, update.rank}});
    values[update.module + ".down"] = &update.down;
    values[update.module + ".up"] = &update.up;
  }
  crumb::SafetensorsWriter writer(path, tensors);
  for (const crumb::TensorDescription& tensor : writer.tensors())
    writer.write(tensor.name, std::as_bytes(std::span(*values.at(tensor.name))));
  writer.commit();
}

void write(const crumb::Adapter& adapter, const Json& given) {
  const std::string as = given.value("as", ""), out = given.value("out", ""), base = given.value("base", "");
  const crumb::DType dtype = crumb::dtype_from_name(given.value("dtype", "F32")).value();
  if (as == "floats") write_floats(adapter, out);
  if (as == "peft")
    crumb::write_peft(adapter, out,
                      {.dtype = dtype, .base_model = base, .task_type = given.value("task", "CAUSAL_LM")});
  if (as == "gguf")
    crumb::write_gguf_adapter(adapter, out,
                              {.model_type = given.at("model_type").get<std::string>(),
                               .head_size = given.value("head_size", std::size_t{0}),
                               .dtype = dtype,
                               .base_model = base});
}

Json answer(const Json& given) {
  try {
    const crumb::Adapter adapter =
        crumb::read_adapter(given.at("in").get<std::string>(), given.value("head_size", std::size_t{0}));
    write(adapter, given);
    Json updates = Json::array();
    for (const crumb::LowRankUpdate& update : adapter.updates)
      updates.push_back({{"module", update.module},
                         {"rank", update.rank},
                         {"in", update.in},
                         {"out", update.out},
                         {"scale", static_cast<double>(update.scale)}});
    return {{"base", adapter.base}, {"updates", updates}};
  } catch (const crumb::Error& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) std::cout << answer(Json::parse(line)).dump() << '\n';
}
