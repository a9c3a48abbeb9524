// crumb dequantize: a packed file, or a GGUF file, becomes float safetensors again.
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
#include "cli/float_source.h"
#include "cli/output.h"
#include "cli/threads_flag.h"
#include "cli/verb.h"
#include "formats/safetensors/safetensors.h"
#include "formats/safetensors/sharded_writer.h"
#include "quant/checkpoint/checkpoint_run.h"

namespace crumb::cli {
namespace {

namespace fs = std::filesystem;

struct DequantizeOptions {
  std::string input, output, shard;
  int threads = 0;
};

/// As Hugging Face has it.
constexpr const char* kUsualShard = "5GB";

/// By its writer a later run knows a file again.
const std::map<std::string, std::string> kMetadata = {{"format", "pt"}, {"writer", "crumb dequantize"}};

/// Streams every tensor into a writer and finishes it; `before_commit` runs when all are written.
template <class Writer, class Step>
void write_tensors(Writer& writer, const FloatSource& source, const fs::path& folder, int threads,
                   const Step& before_commit) {
  Progress progress("dequantizing", "tensors", writer.tensors().size(), 0);
  size_t done = 0;
  for (const TensorDescription& tensor : writer.tensors()) {
    check_interrupt();
    source.read_tensor(tensor.name, folder, threads,
                       [&](std::span<const std::byte> bytes) { writer.write(tensor.name, bytes); });
    progress.update(++done, 0);
  }
  before_commit();
  writer.commit();
}

/// Configuration, tokenizer and what else makes the folder a model. What this run made goes again when it ends without
/// keep().
class ModelFiles {
 public:
  ModelFiles(const FloatSource& source, fs::path folder) : source_(source), folder_(std::move(folder)) {}
  ModelFiles(const ModelFiles&) = delete;
  ModelFiles& operator=(const ModelFiles&) = delete;
  ~ModelFiles() {
    std::error_code ignored;
    for (auto path = made_.rbegin(); path != made_.rend(); ++path) fs::remove(*path, ignored);
  }

  void write() {
    for (const std::string& name : source_.files()) {
      const fs::path path = folder_ / name;
      make_folders(fs::path(name).parent_path());
      std::error_code ignored;
      const bool is_new = !fs::exists(path, ignored);  // one that is there is the same
      OutputFile out(path);
      source_.read_file(name, [&](std::span<const std::byte> slice) { out.append(slice); });
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

  const FloatSource& source_;
  fs::path folder_;
  std::vector<fs::path> made_;
};

/// A model's own file must not pose as one of its tensor files, or stand where one of them will.
void refuse_posing_files(const FloatSource& source) {
  for (const std::string& path : source.files()) {
    const std::string_view top = std::string_view(path).substr(0, path.find('/'));
    for (const char* end : {".safetensors", ".safetensors.index.json", ".partial"}) {
      if (top.ends_with(end))
        throw Error("the packed file holds a file " + quote_text(path) +
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

/// A folder that exists holds nothing but what an earlier run of this verb wrote there, whole or interrupted:
/// tensor files of the same names that say so themselves, and model files that would not change.
void refuse_foreign_folder(const fs::path& folder, const std::vector<std::string>& own,
                           const FloatSource& source) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().lexically_relative(folder).generic_string();
    std::error_code ignored;
    if (it->is_directory(ignored)) continue;
    const std::string whole = name.ends_with(".partial") ? name.substr(0, name.rfind('.')) : name;
    const bool is_file = source.has_file(whole);
    const bool tensors = std::ranges::find(own, whole) != own.end();
    if ((tensors || is_file) && whole != name) continue;  // of a run that was killed
    if (tensors && (name == kSafetensorsIndex || is_own_tensor_file(it->path()))) continue;
    if (is_file && source.is_same_file(whole, it->path())) continue;
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

void write_folder(const DequantizeOptions& options, uint64_t shard_bytes, const FloatSource& source) {
  const fs::path folder = options.output;
  ShardPlan plan = plan_shards(source.tensors(), shard_bytes);
  const size_t shards = plan.shards.size();
  refuse_posing_files(source);
  for (const std::string& file : source.files())  // small; before anything is written
    source.read_file(file, [](std::span<const std::byte>) {});
  refuse_overwriting_inputs({options.input}, folder / kSafetensorsIndex);
  for (const std::string& name : plan.files()) refuse_overwriting_inputs({options.input}, folder / name);
  for (const std::string& file : source.files()) refuse_overwriting_inputs({options.input}, folder / file);
  refuse_foreign_folder(folder, plan.files(), source);
  note_large_tensors(plan, shard_bytes, options.shard);
  ShardedSafetensorsWriter writer(folder, std::move(plan), kMetadata);
  {
    ModelFiles files(source, folder);
    write_tensors(writer, source, folder, options.threads, [&] { files.write(); });
    files.keep();
  }
  std::cout << options.output << ": " << count_text(writer.tensors().size(), "tensor") << " in "
            << count_text(shards, "file") << "\n";
}

void write_file(const DequantizeOptions& options, const FloatSource& source) {
  refuse_overwriting_inputs({options.input}, options.output);
  SafetensorsWriter writer(options.output, source.tensors(), kMetadata);
  const fs::path parent = fs::path(options.output).parent_path();
  write_tensors(writer, source, parent.empty() ? fs::path(".") : parent, options.threads, [] {});
  std::cout << options.output << ": " << count_text(writer.tensors().size(), "tensor") << "\n";
}

/// What --shard says; 0 where it is not given.
uint64_t wanted_shard(const std::string& shard) {
  if (shard.empty()) return 0;
  const Result<uint64_t> size = parse_byte_size(shard);
  if (!size.ok()) throw usage_error("--shard: " + size.failure().message);
  return size.value();
}

void dequantize_verb(DequantizeOptions options) {
  uint64_t shard_bytes = wanted_shard(options.shard);
  const FloatSource source(options.input);
  if (const Checkpoint* checkpoint = source.source().checkpoint()) note_skipped(checkpoint->skipped());
  // A packed file's usual output is one file; that of GGUF is what it came from.
  if (shard_bytes == 0 && !source.is_packed() && fs::path(options.output).extension() != ".safetensors") {
    options.shard = kUsualShard;
    shard_bytes = wanted_shard(options.shard);
  }
  if (shard_bytes > 0)
    write_folder(options, shard_bytes, source);
  else
    write_file(options, source);
}

}  // namespace

void add_dequantize(CLI::App& app) {
  auto options = std::make_shared<DequantizeOptions>();
  CLI::App* verb = app.add_subcommand("dequantize", "Turn a packed file, or GGUF, into float safetensors");
  verb->add_option("input", options->input, "The packed file, or a .gguf file")->required();
  verb->add_option("-o,--output", options->output,
                   "The safetensors file to write; with --shard, and of a .gguf file without that ending, "
                   "the folder")
      ->required();
  verb->add_option("--shard", options->shard,
                   "Write a model folder with safetensors files of at most this size (2GB, 500MiB; a tensor "
                   "is never cut) "
                   "and an index")
      ->type_name("SIZE");
  add_threads_flag(*verb, options->threads, "Threads (those the machine has)");
  verb->footer(
      "Names are the original ones; floating tensors become float32, others keep their type.\n"
      "In a folder the configuration and tokenizer files are written too; a folder that exists must be "
      "empty or\n"
      "hold what an earlier such run left. The index comes last: without it the folder is not complete.\n\n"
      "Examples:\n  crumb dequantize minilm.crumb -o minilm.safetensors\n"
      "  crumb dequantize minilm.crumb -o minilm-float --shard 2GB\n"
      "  crumb dequantize SmolLM2-135M-Instruct.Q4_1.gguf -o smollm2");
  verb->callback([options] { dequantize_verb(*options); });
}

}  // namespace crumb::cli
