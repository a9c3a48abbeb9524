#include "formats/adapters/read_adapter.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "base/text/ascii_case.h"
#include "formats/adapters/gguf_adapter.h"
#include "formats/adapters/peft.h"
#include "formats/checkpoint/detect.h"
#include "formats/gguf/gguf.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;

Error no_adapter(const fs::path& path, const std::string& found) {
  return Error(
      quote_text(path.native()) + " is " + found +
      "; expected a low-rank adapter: a folder that PEFT wrote, or a GGUF file whose 'general.type' is "
      "'adapter'");
}

}  // namespace

Adapter read_adapter(const fs::path& path, std::size_t head_size, const CheckCopy& check) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    if (fs::exists(path / kPeftConfig, ignored)) return read_peft(path, check);
    throw no_adapter(path, fs::exists(path / "config.json", ignored)
                               ? "a model's folder"
                               : "a folder without " + std::string(kPeftConfig));
  }
  const MappedFile file = MappedFile::open(path).take();
  const std::span<const std::byte> bytes = file.bytes();
  if (looks_like_gguf(bytes)) return parse_gguf_adapter(bytes, head_size).take(quote_text(path.native()));
  if (path.filename() == kPeftConfig || path.filename() == kPeftTensors)
    throw no_adapter(path, "one of the two files of PEFT's folder");
  throw no_adapter(path, detect_model_file(bytes.first(std::min(bytes.size(), kDetectedBytes)),
                                           lower_case(path.extension().string()))
                             .what);
}

}  // namespace crumb
