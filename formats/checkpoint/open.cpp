#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files/inputs.h"
#include "base/files/text.h"
#include "base/json/bounded_json.h"
#include "formats/checkpoint/checkpoint.h"
#include "formats/checkpoint/decoder_part.h"
#include "formats/checkpoint/detect.h"
#include "formats/checkpoint/find_model.h"
#include "formats/checkpoint/list_tensors.h"
#include "formats/checkpoint/model_files.h"
#include "formats/checkpoint/quantized/bitsandbytes.h"
#include "formats/checkpoint/quantized/dequantized_model.h"
#include "formats/checkpoint/quantized/scaled_weights.h"
#include "formats/checkpoint/shard_index.h"
#include "formats/checkpoint/shown_names.h"
#include "formats/checkpoint/stored_quantization.h"
#include "formats/onnx/external_data.h"

namespace crumb {

namespace fs = std::filesystem;
using nlohmann::json;

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
    if (const Status read = read_own_modelopt_config(); !read.ok()) return read.failure();
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
    const Result<fs::path> model = find_model(folder, also_);
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
    return names.empty() ? "" : "; beside tensors it holds " + shown_names(names);
  }

  /// Takes the checkpoint for the one in floating point that it stands for. What cannot be read so stays as
  /// it is, and quantized_ says why.
  Status dequantize() {
    json stored;
    const json* config = quantization_in(checkpoint_.config_.get());
    if (config == nullptr && !modelopt_.is_null()) config = &modelopt_;
    if (config == nullptr) {
      const Result<json> own = read_own_gptq_config();
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
    if (checkpoint_.config_ != nullptr && forget_quantization(*checkpoint_.config_)) store_config();
    if (Status sorted = sort_tensors(); !sorted.ok()) return sorted;
    checkpoint_.quantized_ = find_scaled_weight(checkpoint_.tensors_);  // that no method read
    return {};
  }

  /// Where a file beside the tensors would be.
  fs::path beside(const char* name) const {
    std::error_code ignored;
    return (fs::is_directory(path_, ignored) ? path_ : path_.parent_path()) / name;
  }

  /// Fills modelopt_ of a folder's file.
  Status read_own_modelopt_config() {
    const fs::path path = beside(kModelOptConfig);
    if (checkpoint_.kind_ != "folder" || !is_present(path)) return {};
    Result<json> config = read_modelopt_config(path);
    if (!config.ok()) return config.failure();
    note_input(path);
    sort_inputs();
    std::erase(checkpoint_.not_carried_, kModelOptConfig);
    modelopt_ = std::move(config.value());
    return {};
  }

  /// Null where there is none.
  Result<json> read_own_gptq_config() {
    const fs::path path = beside(kGptqConfig);
    if (checkpoint_.kind_ != "folder" || !is_present(path)) return json();
    Result<json> config = read_gptq_config(path);
    if (config.ok()) note_input(path);
    return config;
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
    if (auto why = why_quantized(checkpoint_.config_.get(), modelopt_, checkpoint_.tensors_)) return why;
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
