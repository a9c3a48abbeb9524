// Looks up metadata by key, for readers of many entries: the first error is kept, and asked for once at the
// end.
//
//   GgufFields fields(header);
//   const std::uint64_t layers = fields.needed("llama.block_count");
//   const bool adds = fields.flag("tokenizer.ggml.add_bos_token").value_or(true);
//   if (!fields.status().ok()) return fields.status().failure();
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "formats/gguf/gguf.h"

namespace crumb {

class GgufFields {
 public:
  /// `header` must outlive this.
  explicit GgufFields(const GgufHeader& header) : header_(header) {}

  // They return nothing where there is no such key, or where its value is of another kind, which status()
  // then says.
  std::optional<std::uint64_t> natural(const std::string& key);
  std::optional<double> number(const std::string& key);
  std::optional<bool> flag(const std::string& key);
  std::optional<std::string_view> text(const std::string& key);

  /// A number that must be there; 0 where it is not.
  std::uint64_t needed(const std::string& key);

  /// Keeps what is wrong with a key, unless there was an error before.
  void refuse(const std::string& key, const std::string& why);

  const GgufHeader& header() const { return header_; }
  const Status& status() const { return status_; }

 private:
  template <class T>
  std::optional<T> look_up(const std::string& key, Result<T> (*read)(const GgufValue&));

  const GgufHeader& header_;
  Status status_;
};

}  // namespace crumb
