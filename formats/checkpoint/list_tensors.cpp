#include "formats/checkpoint/list_tensors.h"

#include <algorithm>

#include "base/files/text.h"
#include "base/text/ascii_case.h"
#include "formats/checkpoint/detect.h"
#include "formats/gguf/model.h"
#include "formats/npy/npz.h"
#include "formats/onnx/onnx_weights.h"
#include "formats/safetensors/safetensors.h"
#include "formats/torch_pickle/torch_pickle.h"
#include "formats/zip/zip.h"

namespace crumb {
namespace {

constexpr std::size_t kStart = 64;  // bytes that tell a file's kind

Result<TensorListing> list_safetensors(std::span<const std::byte> file) {
  Result<SafetensorsHeader> header = parse_safetensors(file);
  if (!header.ok()) return header.failure();
  TensorListing listing;
  listing.tensors.reserve(header.value().tensors.size());
  for (SafetensorsTensor& tensor : header.value().tensors) {
    StoredTensor& stored = listing.tensors.emplace_back();
    stored.name = std::move(tensor.name);
    stored.dtype = tensor.dtype;
    stored.shape = std::move(tensor.shape);
    stored.place.offset = tensor.offset;
    stored.place.stored = stored.place.decoded = tensor.bytes;
  }
  return listing;
}

/// A zip with a pickle is PyTorch's, one with arrays is NumPy's, whatever it is called.
Result<ModelFileKind> kind_of_zip(std::span<const std::byte> file) {
  const Result<std::vector<ZipMember>> members = parse_zip(file);
  if (!members.ok()) return members.failure();
  const auto any = [&](std::string_view end) {
    return std::ranges::any_of(members.value(), [&](const ZipMember& m) { return m.name.ends_with(end); });
  };
  if (any("data.pkl") || any("constants.pkl")) return ModelFileKind::kTorch;
  if (any(".npy") || members.value().empty()) return ModelFileKind::kNpz;
  return Failure{
      "it is a zip archive with neither a PyTorch pickle (data.pkl) nor NumPy arrays (.npy), found " +
      quote_text(members.value().front().name)};
}

}  // namespace

std::string lower_extension(const std::filesystem::path& path) {
  return lower_case(path.extension().string());
}

std::string expected_inputs(std::string_view also) {
  std::string text = "expected a Hugging Face folder, " + std::string(kTensorFiles);
  text += also.empty() ? ", or a safetensors or PyTorch index" : ", a safetensors or PyTorch index, or ";
  return text.append(also);
}

Result<FileListing> list_tensors(const MappedFile& file, const std::string& key, std::string_view also) {
  const std::span<const std::byte> bytes = file.bytes();
  const std::string subject = quote_text(file.path().native());
  const auto failed = [&](const Failure& failure) { return Failure{subject + ": " + failure.message}; };
  DetectedFile detected =
      detect_model_file(bytes.first(std::min(bytes.size(), kStart)), lower_extension(file.path()));
  if (detected.kind == ModelFileKind::kUnknown && looks_like_onnx(bytes))
    detected.kind = ModelFileKind::kOnnx;
  if (detected.kind == ModelFileKind::kZip) {
    const Result<ModelFileKind> kind = kind_of_zip(bytes);
    if (!kind.ok()) return failed(kind.failure());
    detected.kind = kind.value();
  }
  const std::string stem = file.path().stem().string();
  Result<TensorListing> listing = TensorListing{};
  std::string_view kind;
  std::vector<MadeFile> files;
  switch (detected.kind) {
    case ModelFileKind::kSafetensors:
      kind = "safetensors";
      listing = list_safetensors(bytes);
      break;
    case ModelFileKind::kTorch:
      kind = "pytorch";
      listing = list_torch_checkpoint(bytes, {.key = key});
      break;
    case ModelFileKind::kNpy:
      kind = "npy";
      listing = list_npy(bytes, stem);
      break;
    case ModelFileKind::kNpz:
      kind = "npz";
      listing = list_npz(bytes);
      break;
    case ModelFileKind::kOnnx:
      kind = "onnx";
      listing = list_onnx_weights(bytes);
      break;
    case ModelFileKind::kGguf: {
      kind = "gguf";
      Result<GgufModel> model = read_gguf_model(bytes);
      if (!model.ok()) return failed(model.failure());
      listing = std::move(model.value().listing);
      files = std::move(model.value().files);
      break;
    }
    case ModelFileKind::kZip:
    case ModelFileKind::kJson:
    case ModelFileKind::kOther:
    case ModelFileKind::kUnknown:
      return Failure{subject + " is " + detected.what + "; " + expected_inputs(also)};
  }
  if (!listing.ok()) return failed(listing.failure());
  if (!key.empty() && detected.kind != ModelFileKind::kTorch)
    return Failure{subject + ": --key " + quote_text(key) +
                   " picks an entry of a PyTorch file, but this is " + detected.what};
  for (StoredTensor& tensor : listing.value().tensors) {
    if (tensor.name.empty()) tensor.name = stem;  // a file that is one tensor
  }
  return FileListing{std::move(listing.value()), kind, std::move(files)};
}

}  // namespace crumb
