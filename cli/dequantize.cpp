// crumb dequantize: a packed file becomes float safetensors again.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>

#include "base/files/counted.h"
#include "base/files/interrupt.h"
#include "base/files/mapped_file.h"
#include "base/files/output_file.h"
#include "base/files/text.h"
#include "base/text/byte_size.h"
#include "cli/output.h"
#include "cli/threads_flag.h"
#include "cli/verb.h"
#include "formats/safetensors/safetensors.h"
#include "formats/safetensors/sharded_writer.h"
#include "graph/packed/crumb_graph.h"
#include "quant/checkpoint/checkpoint_run.h"
#include "quant/packed_stream.h"
#include "quant/tensor_source.h"

namespace crumb::cli {
namespace {

namespace fs = std::filesystem;

struct DequantizeOptions {
  std::string input, output, shard;
  int threads = 0;
};

/// By its writer a later run knows a file again.
const std::map<std::string, std::string> kMetadata = {{"format", "pt"}, {"writer", "crumb dequantize"}};

/// Streams every tensor into a writer and finishes it; `before_commit` runs when all are written.
template <class Writer, class Step>
void write_tensors(Writer& writer, const CrumbFile& file, const fs::path& folder, int threads,
                   const Step& before_commit) {
  Progress progress("dequantizing", "tensors", writer.tensors().size(), 0);
  size_t done = 0;
  for (const TensorDescription& description : writer.tensors()) {
    check_interrupt();
    const PackedTensor& tensor = *file.find(description.name);
    if (is_floating(tensor.dtype)) {
      const std::unique_ptr<ValueStream> stream = open_packed_stream(file, tensor, folder, threads);
      for (auto x = stream->next(kStreamPiece); !x.empty(); x = stream->next(kStreamPiece))
        writer.write(tensor.name, std::as_bytes(x));
    } else {
      file.read_slices(*tensor.part(Part::kData), part_text(tensor, Part::kData),
                       [&](std::span<const std::byte> slice) {
                         writer.write(tensor.name, slice);
                         return Status();
                       })
          .take(quote_text(file.path().string()));
    }
    progress.update(++done, 0);
  }
  before_commit();
  writer.commit();
}

/// The files that a model's folder has: not the graph of a checkpoint, which takes the packed file's tensors.
std::vector<PackedFile> folder_files(const CrumbFile& file) {
  std::vector<PackedFile> files = file.header().files;
  if (!graph::holds_only_graph(file.header()))
    std::erase_if(files, [](const PackedFile& entry) { return entry.path == kCrumbGraphFile; });
  return files;
}

/// Configuration, tokenizer and what else makes the folder a model. What this run made goes again when it ends without
/// keep().
class ModelFiles {
 public:
  ModelFiles(const CrumbFile& file, fs::path folder) : file_(file), folder_(std::move(folder)) {}
  ModelFiles(const ModelFiles&) = delete;
  ModelFiles& operator=(const ModelFiles&) = delete;
  ~ModelFiles() {
    std::error_code ignored;
    for (auto path = made_.rbegin(); path != made_.rend(); ++path) fs::remove(*path, ignored);
  }

  void write() {
    for (const PackedFile& entry : folder_files(file_)) {
      const fs::path path = folder_ / entry.path;
      make_folders(fs::path(entry.path).parent_path());
      std::error_code ignored;
      const bool is_new = !fs::exists(path, ignored);  // one that is there is the same
      OutputFile out(path);
      file_
          .read_slices(entry.blob, "file " + quote_text(entry.path),
                       [&](std::span<const std::byte> slice) {
                         out.append(slice);
                         return Status();
                       })
          .take(quote_text(file_.path().string()));
      out.commit();
      if (is_new) made_.push_back(path);
    }
  }

  void keep() { made_.clear(); }

 private:
  void make_folders(const fs::path& inside) {
    fs::path path = folder_;
    for (const fs::path& step : inside) {
      path /= step;
      std::error_code error;
      const bool is_new = fs::create_directory(path, error);
      if (error) throw Error("cannot make the folder " + quote_text(path.native()) + ": " + error.message());
      if (is_new) made_.push_back(path);
    }
  }

  const CrumbFile& file_;
  fs::path folder_;
  std::vector<fs::path> made_;
};

/// A model's own file must not pose as one of its tensor files, or stand where one of them will.
void refuse_posing_files(const CrumbFile& file) {
  for (const PackedFile& entry : folder_files(file)) {
    const std::string_view top = std::string_view(entry.path).substr(0, entry.path.find('/'));
    for (const char* end : {".safetensors", ".safetensors.index.json", ".partial"}) {
      if (top.ends_with(end))
        throw Error("the packed file holds a file " + quote_text(entry.path) +
                    ", which would mix with the tensor files that are written");
    }
  }
}

/// Whether a tensor file in the output folder was written by this verb.
bool is_own_tensor_file(const fs::path& path) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return false;
  const Result<SafetensorsHeader> header = parse_safetensors(file.value().bytes());
  return header.ok() && header.value().metadata == kMetadata;
}

/// Whether a file in the output folder is, byte for byte, the one that the packed file holds.
bool is_same_file(const CrumbFile& packed, const PackedFile& entry, const fs::path& path) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok() || file.value().size() != entry.blob.raw) return false;
  const std::span<const std::byte> found = file.value().bytes();
  uint64_t seen = 0;
  bool same = true;
  packed
      .read_slices(entry.blob, "file " + quote_text(entry.path),
                   [&](std::span<const std::byte> slice) {
                     same = same && std::ranges::equal(slice, found.subspan(seen, slice.size()));
                     seen += slice.size();
                     return Status();
                   })
      .take(quote_text(packed.path().string()));
  return same;
}

/// A folder that exists holds nothing but what an earlier run of this verb wrote there, whole or interrupted:
/// tensor files of the same names that say so themselves, and model files that would not change.
void refuse_foreign_folder(const fs::path& folder, const std::vector<std::string>& own,
                           const CrumbFile& packed) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().lexically_relative(folder).generic_string();
    std::error_code ignored;
    if (it->is_directory(ignored)) continue;
    const std::string whole = name.ends_with(".partial") ? name.substr(0, name.rfind('.')) : name;
    const PackedFile* entry = packed.find_file(whole);
    const bool tensors = std::ranges::find(own, whole) != own.end();
    if ((tensors || entry) && whole != name) continue;  // of a run that was killed
    if (tensors && (name == kSafetensorsIndex || is_own_tensor_file(it->path()))) continue;
    if (entry && is_same_file(packed, *entry, it->path())) continue;
    throw Error("cannot write into " + quote_text(folder.string()) + ": it holds " + quote_text(name) +
                ", which is not what an earlier run of this command left there, and the two would be mixed; "
                "remove it or choose another folder");
  }
  if (error) throw Error("cannot read the folder " + quote_text(folder.string()) + ": " + error.message());
}

/// A tensor is never cut: one above the limit makes a larger file.
void note_large_tensors(const ShardPlan& plan, uint64_t shard_bytes, const std::string& limit) {
  size_t count = 0;
  const TensorDescription* largest = nullptr;
  uint64_t most = shard_bytes;
  for (const Shard& shard : plan.shards) {
    for (const TensorDescription& tensor : shard.tensors) {
      const uint64_t bytes = tensor_byte_size(tensor.dtype, tensor.shape).take();
      count += bytes > shard_bytes;
      if (bytes <= most) continue;
      most = bytes;
      largest = &tensor;
    }
  }
  if (!largest) return;
  std::fprintf(stderr, "note: %zu %s larger than %s and %s a file of its own; the largest is %s with %s\n",
               count, count == 1 ? "tensor is" : "tensors are", quote_text(limit).c_str(),
               count == 1 ? "has" : "have each", quote_text(largest->name).c_str(), megabytes(most).c_str());
}

void write_folder(const DequantizeOptions& options, uint64_t shard_bytes, const CrumbFile& file,
                  std::vector<TensorDescription> tensors) {
  const fs::path folder = options.output;
  ShardPlan plan = plan_shards(std::move(tensors), shard_bytes);
  const size_t shards = plan.shards.size();
  refuse_posing_files(file);
  for (const PackedFile& entry : folder_files(file))  // small; before anything is written
    file.check_blob(entry.blob, "file " + quote_text(entry.path)).take(quote_text(options.input));
  refuse_overwriting_inputs({options.input}, folder / kSafetensorsIndex);
  for (const std::string& name : plan.files()) refuse_overwriting_inputs({options.input}, folder / name);
  for (const PackedFile& entry : folder_files(file))
    refuse_overwriting_inputs({options.input}, folder / entry.path);
  refuse_foreign_folder(folder, plan.files(), file);
  note_large_tensors(plan, shard_bytes, options.shard);
  ShardedSafetensorsWriter writer(folder, std::move(plan), kMetadata);
  {
    ModelFiles files(file, folder);
    write_tensors(writer, file, folder, options.threads, [&] { files.write(); });
    files.keep();
  }
  std::cout << options.output << ": " << count_text(writer.tensors().size(), "tensor") << " in "
            << count_text(shards, "file") << "\n";
}

void write_file(const DequantizeOptions& options, const CrumbFile& file,
                std::vector<TensorDescription> tensors) {
  refuse_overwriting_inputs({options.input}, options.output);
  SafetensorsWriter writer(options.output, std::move(tensors), kMetadata);
  const fs::path parent = fs::path(options.output).parent_path();
  write_tensors(writer, file, parent.empty() ? fs::path(".") : parent, options.threads, [] {});
  std::cout << options.output << ": " << count_text(writer.tensors().size(), "tensor") << "\n";
}

void dequantize_verb(const DequantizeOptions& options) {
  uint64_t shard_bytes = 0;
  if (!options.shard.empty()) {
    const Result<uint64_t> size = parse_byte_size(options.shard);
    if (!size.ok()) throw usage_error("--shard: " + size.failure().message);
    shard_bytes = size.value();
  }
  const TensorSource source = TensorSource::open(options.input);
  if (!source.crumb()) {
    throw Error(quote_text(options.input) + " is no packed file: found a " + std::string(source.kind()) +
                ", expected a .crumb file");
  }
  std::vector<TensorDescription> tensors;
  for (const SourceTensor& tensor : source.tensors()) {
    tensors.push_back({tensor.name, is_floating(tensor.dtype) ? DType::kF32 : tensor.dtype, tensor.shape});
  }
  if (shard_bytes > 0)
    write_folder(options, shard_bytes, *source.crumb(), std::move(tensors));
  else
    write_file(options, *source.crumb(), std::move(tensors));
}

}  // namespace

void add_dequantize(CLI::App& app) {
  auto options = std::make_shared<DequantizeOptions>();
  CLI::App* verb = app.add_subcommand("dequantize", "Turn a packed file into float safetensors");
  verb->add_option("input", options->input, "The packed file")->required();
  verb->add_option("-o,--output", options->output, "The safetensors file to write; with --shard the folder")
      ->required();
  verb->add_option("--shard", options->shard,
                   "Write a model folder with safetensors files of at most this size (2GB, 500MiB; a tensor "
                   "is never cut) "
                   "and an index")
      ->type_name("SIZE");
  add_threads_flag(*verb, options->threads, "Threads (those the machine has)");
  verb->footer(
      "Names are the original ones; floating tensors become float32, others keep their type.\n"
      "With --shard the configuration and tokenizer files are written too; a folder that exists must be "
      "empty or\n"
      "hold what an earlier such run left. The index comes last: without it the folder is not complete.\n\n"
      "Examples:\n  crumb dequantize minilm.crumb -o minilm.safetensors\n"
      "  crumb dequantize minilm.crumb -o minilm-float --shard 2GB");
  verb->callback([options] { dequantize_verb(*options); });
}

}  // namespace crumb::cli
