// WeightSources for tests: float32 tensors in memory, and a Hugging Face folder with one float32 safetensors
// file.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/mapped_file.h"
#include "formats/safetensors/safetensors.h"
#include "models/weight_source.h"

namespace crumb::testing {

struct MemoryTensor {
  std::vector<size_t> shape;
  std::vector<float> values;
};

class MemorySource : public models::WeightSource {
 public:
  std::map<std::string, MemoryTensor, std::less<>> tensors;
  std::map<std::string, std::string, std::less<>> files;

  bool has(std::string_view name) const override { return tensors.find(name) != tensors.end(); }
  std::vector<size_t> shape(std::string_view name) const override { return get(name).shape; }
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto& [name, tensor] : tensors) all.push_back(name);
    return all;
  }
  std::vector<float> floats(std::string_view name) const override { return get(name).values; }
  std::optional<QuantizedTensor> codes(std::string_view) const override { return std::nullopt; }
  std::optional<std::string> file(std::string_view path) const override {
    const auto entry = files.find(path);
    return entry == files.end() ? std::nullopt : std::optional(entry->second);
  }
  std::string describe() const override { return "the test's memory"; }

 private:
  const MemoryTensor& get(std::string_view name) const {
    const auto entry = tensors.find(name);
    if (entry == tensors.end()) throw Error("no tensor " + std::string(name));
    return entry->second;
  }
};

class FolderSource : public MemorySource {
 public:
  explicit FolderSource(std::filesystem::path folder) : folder_(std::move(folder)) {
    const auto map = MappedFile::open(folder_ / "model.safetensors").take();
    const auto header = parse_safetensors(map.bytes()).take();
    for (const SafetensorsTensor& tensor : header.tensors) {
      if (tensor.dtype != DType::kF32) continue;
      MemoryTensor& to = tensors[tensor.name];
      to.shape.assign(tensor.shape.begin(), tensor.shape.end());
      to.values.resize(tensor.bytes / sizeof(float));
      std::memcpy(to.values.data(), map.bytes().data() + tensor.offset, tensor.bytes);
    }
  }

  std::optional<std::string> file(std::string_view path) const override {
    std::ifstream in(folder_ / path, std::ios::binary);
    if (!in) return std::nullopt;
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  std::string describe() const override { return "folder " + folder_.string(); }

 private:
  std::filesystem::path folder_;
};

}  // namespace crumb::testing
