// The configuration of each method, and how it decodes a layer, inside formats/checkpoint/quantized.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "formats/checkpoint/quantized/modules.h"

namespace crumb::quantized {

/// One method, configured.
class Method {
 public:
  virtual ~Method() = default;
  virtual const Reading& reading() const = 0;
  /// Reads the small tensors that give shapes (`files` are those that TensorEntry::input counts).
  virtual Result<Decoding> decode(const Module& module, const std::vector<InputFile>& files) const = 0;
};

/// A Failure names what is not supported.
Result<std::unique_ptr<Method>> compressed_tensors_method(const nlohmann::json& config);
Result<std::unique_ptr<Method>> gptq_method(const nlohmann::json& config);
Result<std::unique_ptr<Method>> awq_method(const nlohmann::json& config);
Result<std::unique_ptr<Method>> auto_round_method(const nlohmann::json& config);

// Values of a configuration. They return the fallback where the key is missing or null, and a Failure, which
// names the key, where it has another type.
Result<std::string> text_of(const nlohmann::json& object, const char* key, const std::string& fallback);
Result<std::int64_t> integer_of(const nlohmann::json& object, const char* key, std::int64_t fallback);
Result<bool> flag_of(const nlohmann::json& object, const char* key, bool fallback);

}  // namespace crumb::quantized
