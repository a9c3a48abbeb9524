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

/// The file's kind by its first bytes and name; of an archive, by its members.
Result<DetectedFile> detect(const MappedFile& file) {
  const std::span<const std::byte> bytes = file.bytes();
  DetectedFile detected =
      detect_model_file(bytes.first(std::min(bytes.size(), kDetectedBytes)), lower_extension(file.path()));
  if (detected.kind == ModelFileKind::kUnknown && looks_like_onnx(bytes))
    detected.kind = ModelFileKind::kOnnx;
  if (detected.kind != ModelFileKind::kZip) return detected;
  const Result<ModelFileKind> kind = kind_of_zip(bytes);
  if (!kind.ok()) return kind.failure();
  detected.kind = kind.value();
  return detected;
}

Result<FileListing> with_kind(std::string_view kind, Result<TensorListing> listing) {
  if (!listing.ok()) return listing.failure();
  return FileListing{std::move(listing.value()), kind, {}};
}

/// A model in several files is listed by any of them.
Result<FileListing> list_gguf(const MappedFile& file) {
  std::vector<MappedFile> others;
  const auto open = [&](const std::string& name) -> Result<std::span<const std::byte>> {
    Result<MappedFile> other = MappedFile::open(file.path().parent_path() / name);
    if (!other.ok()) return other.failure();
    return others.emplace_back(std::move(other.value())).bytes();
  };
  const std::string own = file.path().filename().string();
  const Result<std::vector<GgufPart>> parts = find_gguf_parts({own, file.bytes()}, open);
  if (!parts.ok()) return parts.failure();
  Result<GgufModel> model = read_gguf_model(parts.value(), own);
  if (!model.ok()) return model.failure();
  return FileListing{std::move(model.value().listing), "gguf", std::move(model.value().files)};
}

/// Precondition: the kind is one that holds tensors.
Result<FileListing> list_kind(ModelFileKind kind, const MappedFile& file, const std::string& key,
                              const std::string& stem) {
  const std::span<const std::byte> bytes = file.bytes();
  switch (kind) {
    case ModelFileKind::kSafetensors: return with_kind("safetensors", list_safetensors(bytes));
    case ModelFileKind::kTorch: return with_kind("pytorch", list_torch_checkpoint(bytes, {.key = key}));
    case ModelFileKind::kNpy: return with_kind("npy", list_npy(bytes, stem));
    case ModelFileKind::kNpz: return with_kind("npz", list_npz(bytes));
    case ModelFileKind::kOnnx: return with_kind("onnx", list_onnx_weights(bytes));
    default: return list_gguf(file);
  }
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
  const std::string subject = quote_text(file.path().native());
  const auto failed = [&](const Failure& failure) { return Failure{subject + ": " + failure.message}; };
  const Result<DetectedFile> found = detect(file);
  if (!found.ok()) return failed(found.failure());
  const DetectedFile& detected = found.value();
  switch (detected.kind) {
    case ModelFileKind::kZip:
    case ModelFileKind::kJson:
    case ModelFileKind::kOther:
    case ModelFileKind::kUnknown:
      return Failure{subject + " is " + detected.what + "; " + expected_inputs(also)};
    default: break;
  }
  const std::string stem = file.path().stem().string();
  Result<FileListing> listing = list_kind(detected.kind, file, key, stem);
  if (!listing.ok()) return failed(listing.failure());
  if (!key.empty() && detected.kind != ModelFileKind::kTorch)
    return Failure{subject + ": --key " + quote_text(key) +
                   " picks an entry of a PyTorch file, but this is " + detected.what};
  for (StoredTensor& tensor : listing.value().listing.tensors) {
    if (tensor.name.empty()) tensor.name = stem;  // a file that is one tensor
  }
  return listing;
}

}  // namespace crumb
