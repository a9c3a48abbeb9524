#include "formats/checkpoint/detect.h"

#include <algorithm>

#include "formats/safetensors/safetensors.h"
#include "formats/torch_pickle/torch_pickle.h"
#include "formats/torch_pickle/torch_stream.h"

namespace crumb {
namespace {

struct OtherKind {
  std::string_view extension, what;
};

/// Models of tools whose files have no mark of their own, or that of another kind.
constexpr OtherKind kOtherKinds[] = {
    {".keras", "a Keras model (.keras), which is not supported: export the model to ONNX (tf2onnx)"},
    {".pb", "a TensorFlow graph (.pb), which is not supported: export the model to ONNX (tf2onnx)"},
    {".tflite",
     "a TensorFlow Lite model (.tflite), which is not supported: export the model to ONNX (tf2onnx)"},
    {".mlmodel",
     "a Core ML model (.mlmodel), which is not supported: export the model to ONNX where it was trained"},
    {".msgpack", "a Flax model (.msgpack), which is not supported: save it as safetensors"},
    {".pdmodel", "a Paddle model (.pdmodel), which is not supported: export the model to ONNX (paddle2onnx)"},
    {".pdiparams",
     "weights of a Paddle model (.pdiparams), which are not supported: export the model to ONNX "
     "(paddle2onnx)"},
    {".pdparams",
     "weights of a Paddle model (.pdparams), which are not supported: export the model to ONNX "
     "(paddle2onnx)"},
    {".caffemodel", "a Caffe model (.caffemodel), which is not supported: convert it to ONNX"},
    {".mnn", "an MNN model (.mnn), which is not supported: take the ONNX file that it was made from"},
    {".engine",
     "a TensorRT engine (.engine), which is not supported: take the ONNX file that it was made from"},
    {".plan", "a TensorRT engine (.plan), which is not supported: take the ONNX file that it was made from"},
    {".ort",
     "an ONNX Runtime model (.ort), which is not supported: take the ONNX file that it was made from"},
    {".pte", "an ExecuTorch program (.pte), which is not supported: save the model's state_dict"},
    {".llamafile", "a llamafile, which is not supported: unzip the .gguf file in it"},
};

/// For people; empty where the extension is none of them.
std::string_view other_kind(std::string_view extension) {
  for (const OtherKind& kind : kOtherKinds)
    if (kind.extension == extension) return kind.what;
  return "";
}

}  // namespace

DetectedFile detect_model_file(std::span<const std::byte> start, std::string_view extension) {
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  if (looks_like_safetensors(start)) return {ModelFileKind::kSafetensors, "a safetensors file"};

  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') return {ModelFileKind::kJson, "a JSON file"};
  const bool is_lite = text.size() >= 8 && text.substr(4, 4) == "TFL3";
  if (is_lite || extension == ".keras")
    return {ModelFileKind::kOther, std::string(other_kind(is_lite ? ".tflite" : extension))};
  if (text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06"))
    return {ModelFileKind::kZip, "a zip archive"};
  if (text.starts_with("\x93NUMPY")) return {ModelFileKind::kNpy, "a NumPy array (.npy)"};
  if (text.starts_with("GGUF")) return {ModelFileKind::kGguf, "a GGUF file"};
  if (text.starts_with("\x89HDF\r\n"))
    return {ModelFileKind::kOther,
            extension == ".h5" || extension == ".hdf5"
                ? "a Keras model in HDF5, which is not supported: export the model to ONNX (tf2onnx)"
                : "an HDF5 file, which is not supported"};
  if (looks_like_torch_stream(start)) return {ModelFileKind::kTorch, "a PyTorch checkpoint"};
  if (const std::string_view form = unread_torch_form(start); !form.empty())
    return {ModelFileKind::kOther, std::string(form)};
  if (extension == ".onnx") return {ModelFileKind::kOnnx, "an ONNX model"};
  // Named so, but damaged: its reader says how.
  if (extension == ".safetensors") return {ModelFileKind::kSafetensors, "a damaged safetensors file"};
  const std::string_view other = other_kind(extension);
  return {ModelFileKind::kUnknown, other.empty() ? "a file of an unknown kind" : std::string(other)};
}

}  // namespace crumb
