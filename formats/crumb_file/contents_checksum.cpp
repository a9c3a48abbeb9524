#include "formats/crumb_file/contents_checksum.h"

#include <string>

#include "base/checksum.h"

namespace crumb {
namespace {

void put(std::string& text, const Blob& blob) {
  text += std::to_string(blob.raw) + ' ' + std::to_string(blob.crc) + '\n';
}

}  // namespace

std::uint32_t contents_checksum(const CrumbHeader& header) {
  std::string text;
  for (const PackedTensor& tensor : header.tensors) {
    text += tensor.name + '\0' + tensor.spec + '\0' + std::to_string(static_cast<int>(tensor.dtype));
    for (const std::uint64_t size : tensor.shape) text += ' ' + std::to_string(size);
    text += '\n';
    for (const auto& part : tensor.parts) {
      if (part) put(text, *part);
    }
  }
  for (const char* path : {"config.json", "graph.onnx"}) {
    for (const PackedFile& file : header.files) {
      if (file.path == path) put(text, file.blob);
    }
  }
  return crc32_of(text);
}

}  // namespace crumb
