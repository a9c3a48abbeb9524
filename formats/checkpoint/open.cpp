#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files/inputs.h"
#include "base/files/text.h"
#include "base/json/bounded_json.h"
#include "formats/checkpoint/checkpoint.h"
#include "formats/checkpoint/decoder_part.h"
#include "formats/checkpoint/detect.h"
#include "formats/checkpoint/list_tensors.h"
#include "formats/checkpoint/model_files.h"
#include "formats/checkpoint/quantized/bitsandbytes.h"
#include "formats/checkpoint/quantized/dequantized_model.h"
#include "formats/checkpoint/quantized/scaled_weights.h"
#include "formats/checkpoint/shard_index.h"
#include "formats/gguf/split.h"
#include "formats/onnx/external_data.h"

namespace crumb {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// What a folder's tensors lie in, in the order of preference; of each, an index after the file itself.
constexpr std::array<const char*, 2> kModelNames = {"model.safetensors", "pytorch_model.bin"};
constexpr const char* kIndexEnd = ".index.json";
/// Of config.json.
constexpr std::array<const char*, 2> kQuantizationKeys = {"quantization_config", "compression_config"};
/// In which ModelOpt keeps what others have in config.json.
constexpr const char* kModelOptConfig = "hf_quant_config.json";
/// Of a folder that PEFT wrote.
constexpr const char* kAdapterConfig = "adapter_config.json";
/// What trainers leave beside a model.
constexpr std::array<const char*, 4> kNoModels = {"training_args.bin", "optimizer.bin", "optimizer.pt",
                                                  "scheduler.pt"};

/// Whether a name says that the file is one of several: "model-00001-of-00003.safetensors".
bool is_shard_name(const std::string& name) {
  const std::size_t of = name.rfind("-of-");
  if (of == std::string::npos) return false;
  const std::string digits = name.substr(of + 4, name.find('.', of) - (of + 4));
  const bool is_number = !digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos;
  return is_number && digits.find_first_not_of('0') != std::string::npos &&
         digits.substr(digits.find_first_not_of('0')) != "1";
}

std::string text_of_json(const json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string list_text(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 12;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

}  // namespace

class CheckpointOpener {
 public:
  explicit CheckpointOpener(fs::path path) : path_(std::move(path)) {}

  Result<Checkpoint> open(const CheckpointOptions& options) {
    std::error_code ignored;
    key_ = options.key;
    also_ = options.also;
    const Status opened = fs::is_directory(path_, ignored) ? open_folder(path_) : open_file();
    if (!opened.ok()) return opened.failure();
    sort_inputs();
    if (const Status unique = sort_tensors(); !unique.ok()) return unique.failure();
    if (const Status placed = check_index(); !placed.ok()) return placed.failure();
    if (const Status read = read_modelopt_config(); !read.ok()) return read.failure();
    checkpoint_.quantized_ = find_quantization();
    if (checkpoint_.quantized_) {
      if (const Status read = dequantize(); !read.ok()) return read.failure();
    }
    if (checkpoint_.quantized_ && options.refuse_quantized)
      return Failure{quote_text(path_.native()) + " is already quantized: " + *checkpoint_.quantized_ +
                     "; expected a checkpoint in floating point, or one of " +
                     std::string(kReadQuantizations)};
    if (!checkpoint_.quantized_)
      if (const Status taken = take_decoder(); !taken.ok()) return taken.failure();
    return std::move(checkpoint_);
  }

 private:
  Status open_file() {
    Result<MappedFile> file = MappedFile::open(path_);
    if (!file.ok()) return Failure{file.failure().message + "; " + expected_inputs(also_)};
    const std::span<const std::byte> bytes = file.value().bytes();
    const DetectedFile detected =
        detect_model_file(bytes.first(std::min(bytes.size(), kDetectedBytes)), lower_extension(path_));
    if (detected.kind != ModelFileKind::kJson) return add_tensor_file(file.value(), &checkpoint_.kind_);
    const fs::path folder = path_.has_parent_path() ? path_.parent_path() : fs::path(".");
    checkpoint_.kind_ = "folder";
    if (const Status shards = open_index(folder, path_); !shards.ok()) return shards;
    if (const Status modules = add_module_tensors(folder); !modules.ok()) return modules;
    return add_model_files(folder);
  }

  Status open_folder(const fs::path& folder) {
    checkpoint_.kind_ = "folder";
    note_input_folder(folder);
    const Result<fs::path> model = find_model(folder);
    if (!model.ok()) return model.failure();
    const bool is_index = model.value().native().ends_with(kIndexEnd);
    const Status tensors = is_index ? open_index(folder, model.value()) : map_tensor_file(model.value());
    if (!tensors.ok()) return tensors;
    if (const Status modules = add_module_tensors(folder); !modules.ok()) return modules;
    return add_model_files(folder);
  }

  /// Tensors of Dense modules, under the names of their folders. One without a tensor file is left to those
  /// who need its tensors.
  Status add_module_tensors(const fs::path& folder) {
    const Result<std::vector<std::string>> modules = dense_module_folders(folder);
    if (!modules.ok()) return modules.failure();
    for (const std::string& module : modules.value()) {
      for (const char* name : kModelNames) {
        const fs::path path = folder / module / name;
        if (!is_present(path)) continue;
        const std::size_t before = checkpoint_.tensors_.size();
        if (const Status mapped = map_tensor_file(path); !mapped.ok()) return mapped;
        for (std::size_t i = before; i < checkpoint_.tensors_.size(); ++i)
          checkpoint_.tensors_[i].name.insert(0, module + "/");
        break;
      }
    }
    return {};
  }

  /// The tensor file or index that a folder's model lies in.
  Result<fs::path> find_model(const fs::path& folder) {
    std::vector<std::string> found, safetensors, others;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      std::string name = entry->path().filename().string();
      std::error_code ignored;
      const bool is_folder = entry->is_directory(ignored);
      if (!is_folder && lower_extension(name) == ".safetensors") safetensors.push_back(name);
      if (!is_folder && is_tensor_name(name)) others.push_back(name);
      found.push_back(is_folder ? name + "/" : std::move(name));
    }
    if (error)
      return Failure{"cannot read the folder " + quote_text(folder.native()) + ": " + error.message()};
    if (is_present(folder / kAdapterConfig) && !is_present(folder / "config.json"))
      return adapter_failure(folder);
    std::sort(found.begin(), found.end());
    std::sort(safetensors.begin(), safetensors.end());
    std::sort(others.begin(), others.end());

    for (const char* name : kModelNames) {
      if (is_present(folder / name)) return folder / name;
      if (is_present(folder / (std::string(name) + kIndexEnd)))
        return folder / (std::string(name) + kIndexEnd);
      if (safetensors.size() == 1 && !is_shard_name(safetensors.front())) return folder / safetensors.front();
    }
    if (safetensors.empty() && others.size() == 1 && !is_shard_name(others.front()))
      return folder / others.front();
    if (safetensors.empty() && !others.empty() && are_gguf_parts(others)) return folder / others.front();
    const std::vector<std::string>& several = safetensors.empty() ? others : safetensors;
    const std::string subject = "the folder " + quote_text(folder.native());
    if (several.empty())
      return Failure{subject + " holds no tensor files; found " +
                     (found.empty() ? std::string("nothing") : list_text(found)) + "; " +
                     expected_inputs(also_)};
    if (several.size() == 1)
      return Failure{subject + " holds one shard of a model, " + quote_text(several.front()) +
                     ", and no index; the other shards and model.safetensors.index.json are missing"};
    return Failure{subject + " holds several tensor files (" + list_text(several) +
                   ") and neither model.safetensors nor model.safetensors.index.json" +
                   (safetensors.empty() ? ", nor pytorch_model.bin nor pytorch_model.bin.index.json" : "") +
                   "; name one of the files"};
  }

  /// Of a folder that PEFT wrote: it changes a model, whose folder may be said in it.
  static Failure adapter_failure(const fs::path& folder) {
    const Result<json> config = read_bounded_json((folder / kAdapterConfig).string());
    std::string base;
    if (config.ok() && config.value().is_object()) {
      const auto found = config.value().find("base_model_name_or_path");
      if (found != config.value().end() && found->is_string()) base = found->get<std::string>();
    }
    return Failure{
        "the folder " + quote_text(folder.native()) + " holds a low-rank adapter (" + kAdapterConfig +
        "), which is no model but a change to one" + (base.empty() ? "" : ", " + quote_text(base)) +
        ": give the folder of that model, and this one as --adapter (crumb merge MODEL --adapter " +
        quote_text(folder.native()) + " -o MERGED makes a model of both)"};
  }

  /// Whether a name is that of a tensor file other than safetensors.
  static bool is_tensor_name(const std::string& name) {
    constexpr std::array<std::string_view, 7> kExtensions = {".bin", ".pt",   ".pth", ".ckpt",
                                                             ".npz", ".onnx", ".gguf"};
    const std::string extension = lower_extension(name);
    return std::ranges::find(kExtensions, extension) != kExtensions.end() &&
           std::ranges::find(kNoModels, name) == kNoModels.end();
  }

  Status map_tensor_file(const fs::path& path) {
    const Result<MappedFile> file = MappedFile::open(path);
    if (!file.ok()) return file.failure();
    return add_tensor_file(file.value(), nullptr);
  }

  /// Lists the tensors of one file, which is mapped for that only: they are read later, piece by piece.
  Status add_tensor_file(const MappedFile& file, std::string_view* kind) {
    Result<FileListing> listed = list_tensors(file, key_, also_);
    if (!listed.ok()) return listed.failure();
    if (kind != nullptr) *kind = listed.value().kind;
    const Result<std::size_t> own = add_input(file.path());
    if (!own.ok()) return own.failure();
    TensorListing& listing = listed.value().listing;
    const OnnxDataFolder folder = OnnxDataFolder::of_model(file.path());
    std::map<std::string, std::size_t> external;
    checkpoint_.tensors_.reserve(checkpoint_.tensors_.size() + listing.tensors.size());
    for (StoredTensor& tensor : listing.tensors) {
      std::size_t input = own.value();
      if (!tensor.file.empty()) {
        const Result<std::size_t> opened = external_input(file.path(), folder, tensor, external);
        if (!opened.ok()) return opened.failure();
        input = opened.value();
      }
      const Result<std::uint64_t> bytes = tensor_byte_size(tensor.dtype, tensor.shape);
      if (!bytes.ok())
        return Failure{quote_text(file.path().native()) + ": tensor " + quote_text(tensor.name) + ": " +
                       bytes.failure().message};
      checkpoint_.tensors_.push_back({std::move(tensor), bytes.value(), input});
    }
    for (SkippedEntry& skipped : listing.skipped) checkpoint_.skipped_.push_back(std::move(skipped));
    return add_made_files(file.path(), std::move(listed.value().files));
  }

  /// Of a file that describes its model. Those of a folder wait until its own are known.
  Status add_made_files(const fs::path& path, std::vector<MadeFile> files) {
    made_ = std::move(files);
    if (made_.empty() || checkpoint_.kind_ == "folder") return {};
    take_made_files();
    return read_config(path);
  }

  /// Those that no file is there for.
  void take_made_files() {
    for (const MadeFile& file : std::exchange(made_, {})) {
      if (checkpoint_.find_file(file.path) != nullptr) continue;
      const std::span<const std::byte> text = std::as_bytes(std::span(file.text));
      checkpoint_.made_files_.emplace_back(text.begin(), text.end());
      const ModelFile made{file.path, checkpoint_.made_files_.back()};
      auto& all = checkpoint_.files_;
      all.insert(std::ranges::upper_bound(all, made.path, {}, &ModelFile::path), made);
    }
  }

  Result<std::size_t> add_input(const fs::path& path) {
    Result<InputFile> input = InputFile::open(path);
    if (!input.ok()) return input.failure();
    note_input(path);
    checkpoint_.tensor_files_.push_back(std::move(input.value()));
    return checkpoint_.tensor_files_.size() - 1;
  }

  /// The file beside an ONNX model that holds a tensor's data; checks that it does.
  Result<std::size_t> external_input(const fs::path& owner, const OnnxDataFolder& folder,
                                     const StoredTensor& tensor, std::map<std::string, std::size_t>& opened) {
    const OnnxExternalPlace place{tensor.file, tensor.place.offset};
    const auto fail = [&](const Failure& failure) {
      return Failure{quote_text(owner.native()) + ": tensor " + quote_text(tensor.name) + ": " +
                     failure.message};
    };
    auto found = opened.find(tensor.file);
    if (found == opened.end()) {
      const Result<fs::path> path = folder.find(place);
      if (!path.ok()) return fail(path.failure());
      const Result<std::size_t> input = add_input(path.value());
      if (!input.ok()) return fail({"its external data: " + input.failure().message});
      found = opened.emplace(tensor.file, input.value()).first;
    }
    const std::uint64_t size = checkpoint_.tensor_files_[found->second].size();
    if (Status lies = check_onnx_external(place, tensor.place.stored, size); !lies.ok())
      return fail(lies.failure());
    return found->second;
  }

  Status open_index(const fs::path& folder, const fs::path& path) {
    index_name_ = path.filename().string();
    const Result<MappedFile> file = MappedFile::open(path);
    if (!file.ok()) return file.failure();
    const auto index = parse_shard_index(file.value().bytes());
    if (!index.ok()) return Failure{quote_text(path.native()) + ": " + index.failure().message};
    note_input(path);
    std::map<std::string, std::size_t> shards;
    for (const auto& [tensor, shard] : index.value()) shards.emplace(shard, 0);
    for (auto& [name, number] : shards) {
      if (!is_present(folder / name))
        return Failure{"the shard " + quote_text(name) + ", which " + quote_text(path.native()) +
                       " names, is missing from the folder"};
      number = checkpoint_.tensor_files_.size();  // where the shard's own file will be
      if (const Status mapped = map_tensor_file(folder / name); !mapped.ok()) return mapped;
    }
    for (const auto& [tensor, shard] : index.value()) index_.emplace_back(tensor, shards.at(shard));
    return {};
  }

  Status add_model_files(const fs::path& folder) {
    const Result<std::vector<std::string>> names = model_file_names(folder);
    if (!names.ok()) return names.failure();
    for (const std::string& name : names.value()) {
      const fs::path path = folder / name;
      if (!is_present(path)) continue;
      Result<MappedFile> file = MappedFile::open(path);
      if (!file.ok()) return file.failure();
      if (file.value().size() > Checkpoint::kMaxModelFile)
        return Failure{quote_text(path.native()) + " holds " + byte_text(file.value().size()) +
                       "; a file beside the tensors may hold at most " +
                       std::to_string(Checkpoint::kMaxModelFile)};
      note_input(path);
      checkpoint_.files_.push_back({name, file.value().bytes()});
      checkpoint_.side_files_.push_back(std::move(file.value()));
    }
    take_made_files();
    checkpoint_.not_carried_ = files_but(folder, noted_);
    return read_config(folder);
  }

  Status read_config(const fs::path& folder) {
    const ModelFile* file = checkpoint_.find_file("config.json");
    if (file == nullptr) return {};
    Result<json> config = parse_bounded_json(file->bytes);
    const std::string subject = quote_text((folder / "config.json").native()) + ": ";
    if (!config.ok()) return Failure{subject + config.failure().message};
    if (!config.value().is_object()) return Failure{subject + "expected a JSON object"};
    checkpoint_.config_ = std::make_unique<json>(std::move(config.value()));
    return {};
  }

  void note_input(const fs::path& path) {
    noted_.push_back(path);
    std::error_code error;
    fs::path real = fs::canonical(path, error);
    if (error) real = path;
    checkpoint_.input_paths_.push_back(std::move(real));
  }

  void sort_inputs() {
    auto& paths = checkpoint_.input_paths_;
    std::sort(paths.begin(), paths.end());
    paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  }

  std::string file_name(std::size_t file) const {
    return quote_text(checkpoint_.tensor_files_[file].path().filename().native());
  }

  Status sort_tensors() {
    auto& tensors = checkpoint_.tensors_;
    if (tensors.empty()) return Failure{quote_text(path_.native()) + " holds no tensors" + skipped_text()};
    std::sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
      return std::tie(a.name, a.input) < std::tie(b.name, b.input);
    });
    for (std::size_t i = 1; i < tensors.size(); ++i)
      if (tensors[i - 1].name == tensors[i].name)
        return Failure{quote_text(path_.native()) + ": tensor " + quote_text(tensors[i].name) +
                       " lies in two shards, " + file_name(tensors[i - 1].input) + " and " +
                       file_name(tensors[i].input)};
    return {};
  }

  Status check_index() const {
    for (const auto& [name, file] : index_) {
      const TensorEntry* tensor = checkpoint_.find(name);
      if (tensor != nullptr && tensor->input == file) continue;
      return Failure{
          quote_text(index_name_) + " places tensor " + quote_text(name) + " in " + file_name(file) +
          (tensor == nullptr ? ", which does not hold it" : ", but it lies in " + file_name(tensor->input))};
    }
    return {};
  }

  std::string skipped_text() const {
    std::vector<std::string> names;
    for (const SkippedEntry& skipped : checkpoint_.skipped_)
      names.push_back(quote_text(skipped.name) + ": " + skipped.what);
    return names.empty() ? "" : "; beside tensors it holds " + list_text(names);
  }

  /// Takes the checkpoint for the one in floating point that it stands for. What cannot be read so stays as
  /// it is, and quantized_ says why.
  Status dequantize() {
    json stored;
    const json* config = nullptr;
    if (checkpoint_.config_ != nullptr) {
      for (const char* key : kQuantizationKeys)
        if (const auto found = checkpoint_.config_->find(key);
            config == nullptr && found != checkpoint_.config_->end())
          config = found->is_null() ? nullptr : &*found;
    }
    if (config == nullptr && !modelopt_.is_null()) config = &modelopt_;
    if (config == nullptr) {
      const Result<json> own = read_gptq_config();
      if (!own.ok()) return own.failure();
      stored = own.value();
      if (stored.is_null() && !is_scaled_) return {};
      config = stored.is_null() ? nullptr : &stored;
    }
    const std::vector<TensorEntry>& tensors = checkpoint_.tensors_;
    const std::vector<InputFile>& files = checkpoint_.tensor_files_;
    Result<DequantizedModel> model = config != nullptr ? dequantized_model(*config, tensors, files)
                                     : is_of_bitsandbytes(tensors) ? bitsandbytes_model(tensors, files)
                                                                   : scaled_model(tensors, files);
    if (!model.ok()) {
      *checkpoint_.quantized_ += ": " + model.failure().message;
      return {};
    }
    checkpoint_.tensors_ = std::move(model.value().tensors);
    for (SkippedEntry& skipped : model.value().skipped) checkpoint_.skipped_.push_back(std::move(skipped));
    checkpoint_.dequantized_ = std::move(model.value().what);
    checkpoint_.quantized_.reset();
    forget_quantization();
    if (Status sorted = sort_tensors(); !sorted.ok()) return sorted;
    checkpoint_.quantized_ = find_scaled_weight(checkpoint_.tensors_);  // that no method read
    return {};
  }

  /// Fills modelopt_ of a folder's hf_quant_config.json, {"quantization": {"quant_algo": "FP8", ...}}; null
  /// where there is none, or its weights are in floats.
  Status read_modelopt_config() {
    std::error_code ignored;
    const fs::path path = (fs::is_directory(path_, ignored) ? path_ : path_.parent_path()) / kModelOptConfig;
    if (checkpoint_.kind_ != "folder" || !is_present(path)) return {};
    const Result<json> config = read_bounded_json(path.string());
    if (!config.ok()) return config.failure();
    const auto part = config.value().is_object() ? config.value().find("quantization") : config.value().end();
    if (!config.value().is_object() || part == config.value().end() || !part->is_object())
      return Failure{quote_text(path.native()) + ": expected a JSON object with an object \"quantization\""};
    note_input(path);
    sort_inputs();
    std::erase(checkpoint_.not_carried_, kModelOptConfig);
    const auto algorithm = part->find("quant_algo");
    if (algorithm == part->end() || algorithm->is_null()) return {};
    modelopt_ = {{"quant_method", "modelopt"}, {"quant_algo", *algorithm}};
    return {};
  }

  /// quantize_config.json, in which older tools for GPTQ keep what others have in config.json; null where
  /// there is none.
  Result<json> read_gptq_config() {
    std::error_code ignored;
    const fs::path path =
        (fs::is_directory(path_, ignored) ? path_ : path_.parent_path()) / "quantize_config.json";
    if (checkpoint_.kind_ != "folder" || !is_present(path)) return json();
    Result<json> config = read_bounded_json(path.string());
    if (!config.ok()) return config;
    if (!config.value().is_object()) return Failure{quote_text(path.native()) + ": expected a JSON object"};
    note_input(path);
    if (!config.value().contains("quant_method")) config.value()["quant_method"] = "gptq";
    return config;
  }

  /// The configuration of the model in floating point.
  void forget_quantization() {
    if (checkpoint_.config_ == nullptr) return;
    std::size_t erased = 0;
    for (const char* key : kQuantizationKeys) erased += checkpoint_.config_->erase(key);
    if (erased > 0) store_config();
  }

  /// Takes what a decoder is called and what is around it off.
  Status take_decoder() {
    if (checkpoint_.config_ == nullptr) return {};
    Result<std::optional<DecoderPart>> found = find_decoder(*checkpoint_.config_, checkpoint_.tensors_);
    if (!found.ok()) return Failure{quote_text(path_.native()) + ": " + found.failure().message};
    if (!found.value()) return {};
    DecoderPart& part = *found.value();
    checkpoint_.tensors_ = std::move(part.tensors);
    if (Status sorted = sort_tensors(); !sorted.ok()) return sorted;
    for (SkippedEntry& skipped : part.skipped) checkpoint_.skipped_.push_back(std::move(skipped));
    if (!part.config) return {};
    *checkpoint_.config_ = std::move(*part.config);
    store_config();
    std::erase_if(checkpoint_.files_, [&](const ModelFile& file) {
      if (!is_of_images(file.path)) return false;
      checkpoint_.skipped_.push_back({file.path, "a file about images, which are not read"});
      return true;
    });
    return {};
  }

  /// Makes config.json of the configuration as it is now.
  void store_config() {
    const std::string text = checkpoint_.config_->dump(2) + "\n";
    const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
    const std::vector<std::byte>& kept = checkpoint_.made_files_.emplace_back(bytes.begin(), bytes.end());
    for (ModelFile& file : checkpoint_.files_)
      if (file.path == "config.json") file.bytes = kept;
  }

  std::optional<std::string> find_quantization() {
    if (checkpoint_.config_ != nullptr) {
      for (const char* key : kQuantizationKeys) {
        const auto found = checkpoint_.config_->find(key);
        if (found == checkpoint_.config_->end() || found->is_null()) continue;
        const auto method = found->is_object() ? found->find("quant_method") : found->end();
        return std::string("config.json has ") + key +
               (method != found->end() && method->is_string()
                    ? " (quant_method " + quote_text(method->get_ref<const std::string&>()) + ")"
                    : " (without a quant_method)");
      }
    }
    if (const auto algorithm = modelopt_.find("quant_algo"); algorithm != modelopt_.end())
      return std::string(kModelOptConfig) + " has the quant_algo " + quote_text(text_of_json(*algorithm));
    for (const TensorEntry& tensor : checkpoint_.tensors_) {
      const std::size_t dot = tensor.name.rfind('.');
      const std::string prefix = dot == std::string::npos ? "" : tensor.name.substr(0, dot + 1);
      const std::string_view last = std::string_view(tensor.name).substr(prefix.size());
      if (last == "qweight" || last == "qzeros" || last == "weight_packed")
        return "it holds the tensor " + quote_text(tensor.name);
    }
    // The integers of an ONNX network belong to its nodes, the codes of a GGUF file to its types.
    if (checkpoint_.kind_ == "onnx" || checkpoint_.kind_ == "gguf") return std::nullopt;
    std::optional<std::string> scaled = find_scaled_weight(checkpoint_.tensors_);
    is_scaled_ = scaled.has_value();
    return scaled;
  }

  fs::path path_;
  std::string key_, also_;
  Checkpoint checkpoint_;
  json modelopt_;                ///< what hf_quant_config.json says; null: nothing
  bool is_scaled_ = false;       ///< scales lie beside weights of few bits, and no configuration says more
  std::vector<fs::path> noted_;  ///< the inputs under the names by which they were found
  std::vector<MadeFile> made_;
  std::string index_name_;
  std::vector<std::pair<std::string, std::size_t>> index_;  ///< tensor, and the file that must hold it
};

Result<Checkpoint> Checkpoint::open(const std::filesystem::path& path, const CheckpointOptions& options) {
  return CheckpointOpener(path).open(options);
}

}  // namespace crumb
