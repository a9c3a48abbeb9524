#include "formats/safetensors/sharded_writer.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/checked_size.h"
#include "base/files/text.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;

std::string shard_name(std::size_t number, std::size_t count) {
  char name[80];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", number, count);
  return name;
}

}  // namespace

std::vector<std::string> ShardPlan::files() const {
  std::vector<std::string> names;
  for (const Shard& shard : shards) names.push_back(shard.file);
  if (has_index()) names.emplace_back(kSafetensorsIndex);
  return names;
}

ShardPlan plan_shards(std::vector<TensorDescription> tensors, std::uint64_t shard_bytes) {
  std::ranges::sort(tensors, {}, &TensorDescription::name);
  const auto twice = std::ranges::adjacent_find(tensors, {}, &TensorDescription::name);
  if (twice != tensors.end())
    throw Error("tensor " + quote_text(twice->name) + " cannot be written: the name is taken");
  ShardPlan plan;
  plan.shards.emplace_back();
  std::uint64_t filled = 0;
  for (TensorDescription& tensor : tensors) {
    const std::uint64_t bytes =
        tensor_byte_size(tensor.dtype, tensor.shape).take("tensor " + quote_text(tensor.name));
    if (!plan.shards.back().tensors.empty() && (filled >= shard_bytes || bytes > shard_bytes - filled) &&
        bytes > 0) {
      plan.shards.emplace_back();
      filled = 0;
    }
    filled += bytes;
    const checked::Size all = checked::add(plan.tensor_bytes, bytes);
    if (!all)
      throw Error("tensor " + quote_text(tensor.name) +
                  " cannot be written: the model would pass 2^64 bytes");
    plan.tensor_bytes = *all;
    plan.shards.back().tensors.push_back(std::move(tensor));
  }
  for (std::size_t i = 0; i < plan.shards.size(); ++i) {
    Shard& shard = plan.shards[i];
    shard.file = plan.has_index() ? shard_name(i + 1, plan.shards.size()) : "model.safetensors";
    sort_for_safetensors(shard.tensors);
    safetensors_header(shard.tensors);  // refuses what cannot be written before anything is
  }
  return plan;
}

ShardedSafetensorsWriter::ShardedSafetensorsWriter(const fs::path& folder, ShardPlan plan,
                                                   const std::map<std::string, std::string>& metadata)
    : folder_(folder), plan_(std::move(plan)), metadata_(metadata) {
  std::error_code error;
  if (fs::exists(folder_, error) && !fs::is_directory(folder_, error))
    throw Error("cannot write into " + quote_text(folder_.native()) +
                ": it is a file, shards are written into a folder");
  made_folder_ = fs::create_directory(folder_, error);
  if (error) throw Error("cannot make the folder " + quote_text(folder_.native()) + ": " + error.message());
  refuse_other_files();
  index_.emplace(folder_ / kSafetensorsIndex);
  for (std::size_t i = 0; i < plan_.shards.size(); ++i) {
    for (const TensorDescription& tensor : plan_.shards[i].tensors) {
      tensors_.push_back(tensor);
      shard_of_.emplace(tensor.name, i);
    }
  }
}

ShardedSafetensorsWriter::~ShardedSafetensorsWriter() {
  if (committed_) return;
  std::error_code ignored;
  shard_.reset();
  for (std::size_t i = 0; i < current_; ++i) fs::remove(folder_ / plan_.shards[i].file, ignored);
  index_.reset();
  if (made_folder_) fs::remove(folder_, ignored);  // unless something else was put there
}

void ShardedSafetensorsWriter::refuse_other_files() const {
  const std::vector<std::string> own = plan_.files();
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.ends_with(".safetensors") && !name.ends_with(".safetensors.index.json")) continue;
    if (std::ranges::find(own, name) == own.end())
      throw Error("cannot write into " + quote_text(folder_.native()) + ": it holds " + quote_text(name) +
                  ", which is none of the " + std::to_string(own.size()) +
                  " files to be written, and the two would be mixed; remove it or choose another folder");
  }
  if (error) throw Error("cannot read the folder " + quote_text(folder_.native()) + ": " + error.message());
}

void ShardedSafetensorsWriter::finish_shard() {
  if (!shard_)
    shard_.emplace(folder_ / plan_.shards[current_].file, plan_.shards[current_].tensors, metadata_);
  if (current_ == 0 && plan_.has_index()) {
    std::error_code error;
    fs::remove(folder_ / kSafetensorsIndex, error);
    if (error)
      throw Error("cannot remove the old " + quote_text((folder_ / kSafetensorsIndex).native()) + ": " +
                  error.message());
  }
  shard_->commit();
  shard_.reset();
  ++current_;
}

void ShardedSafetensorsWriter::write(std::string_view name, std::span<const std::byte> chunk) {
  if (chunk.empty()) return;
  const auto found = shard_of_.find(std::string(name));
  if (found == shard_of_.end() || found->second < current_)
    throw Error("bytes of tensor " + quote_text(name) + " are not expected now");
  while (current_ < found->second) finish_shard();
  if (!shard_)
    shard_.emplace(folder_ / plan_.shards[current_].file, plan_.shards[current_].tensors, metadata_);
  shard_->write(name, chunk);
}

std::string ShardedSafetensorsWriter::index_json() const {
  nlohmann::json index = {{"metadata", {{"total_size", plan_.tensor_bytes}}},
                          {"weight_map", nlohmann::json::object()}};
  for (const Shard& shard : plan_.shards) {
    for (const TensorDescription& tensor : shard.tensors) index["weight_map"][tensor.name] = shard.file;
  }
  return index.dump(2, ' ', true) + "\n";
}

void ShardedSafetensorsWriter::commit() {
  while (current_ < plan_.shards.size()) finish_shard();
  if (plan_.has_index()) {
    index_->append(index_json());
    index_->commit();
  }
  index_.reset();
  committed_ = true;
}

}  // namespace crumb
