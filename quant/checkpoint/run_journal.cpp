#include "quant/checkpoint/run_journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/checksum.h"
#include "base/files/inputs.h"
#include "base/files/mapped_file.h"
#include "base/files/partial.h"
#include "base/files/text.h"
#include "base/json/bounded_json.h"
#include "quant/checkpoint/station_files.h"

namespace crumb {
namespace {

using nlohmann::json;

constexpr size_t kCrcDigits = 8;

std::string crc_text(std::string_view text) {
  char digits[kCrcDigits + 1];
  std::snprintf(digits, sizeof digits, "%08x", crc32_of(text));
  return digits;
}

json to_json(const RunIdentity& identity) {
  json inputs = json::array();
  for (const RunIdentity::Input& input : identity.inputs)
    inputs.push_back({input.name, input.size, input.modified_ns, input.changed_ns, input.crc});
  return {{"version", identity.version},
          {"work", identity.work},
          {"recipe", identity.recipe},
          {"plan", identity.plan},
          {"inputs", std::move(inputs)}};
}

RunIdentity identity_from(const json& object) {
  RunIdentity identity;
  object.at("version").get_to(identity.version);
  identity.work = object.value("work", "");  // which journals of 0.1 lack: their version says enough
  object.at("recipe").get_to(identity.recipe);
  object.at("plan").get_to(identity.plan);
  for (const json& input : object.at("inputs")) {
    identity.inputs.push_back({input.at(0).get<std::string>(), input.at(1).get<uint64_t>(),
                               input.at(2).get<int64_t>(), input.at(3).get<int64_t>(),
                               input.at(4).get<uint32_t>()});
  }
  return identity;
}

/// Stores doubles as their bits: JSON has neither infinity nor exact decimals.
json to_json(const JournalEntry& entry) {
  json blobs = json::array();
  for (const Blob& blob : entry.blobs)
    blobs.push_back({blob.offset, blob.stored, blob.raw, static_cast<int>(blob.codec), blob.crc});
  return {{"tensor", entry.tensor},
          {"blobs", std::move(blobs)},
          {"sqnr", std::bit_cast<uint64_t>(entry.sqnr_db)},
          {"most", std::bit_cast<uint64_t>(entry.max_abs_error)},
          {"saturated", entry.saturated_scales}};
}

JournalEntry entry_from(const json& object) {
  JournalEntry entry;
  object.at("tensor").get_to(entry.tensor);
  for (const json& blob : object.at("blobs")) {
    entry.blobs.push_back({blob.at(0).get<uint64_t>(), blob.at(1).get<uint64_t>(), blob.at(2).get<uint64_t>(),
                           blob.at(3).get<int>() == 0 ? Codec::kNone : Codec::kZstd,
                           blob.at(4).get<uint32_t>()});
  }
  entry.sqnr_db = std::bit_cast<double>(object.at("sqnr").get<uint64_t>());
  entry.max_abs_error = std::bit_cast<double>(object.at("most").get<uint64_t>());
  object.at("saturated").get_to(entry.saturated_scales);
  return entry;
}

/// Returns the next whole line's JSON; nothing at the end and where a line is torn.
std::optional<json> next_line(std::string_view& text) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos || end <= kCrcDigits) return std::nullopt;
  const std::string_view body = text.substr(kCrcDigits + 1, end - kCrcDigits - 1);
  if (text.substr(0, kCrcDigits) != crc_text(body)) return std::nullopt;
  text.remove_prefix(end + 1);
  Result<json> object = parse_bounded_json(std::as_bytes(std::span(body)));
  if (!object.ok()) return std::nullopt;
  return std::move(object.value());
}

Error cannot_write(const std::filesystem::path& path, int code) {
  return Error("cannot write " + quote_text(path.native()) + ": " + errno_text(code));
}

std::string when(int64_t then, int64_t now) {
  return then < now ? "was modified since" : "has an older date of modification than it had";
}

}  // namespace

RunIdentity::Input input_of(const InputFile& file) {
  const FileIdentity& found = file.identity();
  return {file.path().filename().string(), found.size, found.modified_ns, found.changed_ns, 0};
}

std::vector<RunIdentity::Input> inputs_of(const Checkpoint& checkpoint) {
  std::vector<RunIdentity::Input> inputs;
  for (const InputFile& file : checkpoint.tensor_files()) inputs.push_back(input_of(file));
  for (const ModelFile& file : checkpoint.files())
    inputs.push_back({file.path, file.bytes.size(), 0, 0, crc32_of(file.bytes)});
  return inputs;
}

std::string difference(const RunIdentity& then, const RunIdentity& now) {
  if (then.version != now.version)
    return "another version began it: " + quote_text(then.version) + ", this is " + quote_text(now.version);
  if (then.work != now.work)
    return "the run that was ended " + (then.work.empty() ? "does not say what it does" : then.work) +
           ", this one " + now.work;
  for (size_t i = 0; i < std::max(then.inputs.size(), now.inputs.size()); ++i) {
    if (i == then.inputs.size()) return "the input has the new file " + quote_text(now.inputs[i].name);
    if (i == now.inputs.size()) return "the input lacks the file " + quote_text(then.inputs[i].name);
    const RunIdentity::Input &a = then.inputs[i], &b = now.inputs[i];
    if (a.name != b.name)
      return "the input differs: " + quote_text(b.name) + " stands where " + quote_text(a.name) + " was";
    const std::string subject = "the input " + quote_text(a.name);
    if (a.size != b.size)
      return subject + " differs: it holds " + byte_text(b.size) + ", it held " + byte_text(a.size);
    if (a.modified_ns != b.modified_ns) return subject + " differs: it " + when(a.modified_ns, b.modified_ns);
    if (a.changed_ns != b.changed_ns)
      return subject +
             " differs: it has the size and the date that it had, but was written, replaced or renamed";
    if (a.crc != b.crc) return subject + " differs in its contents";
  }
  if (then.recipe != now.recipe) return "the recipe differs:\n" + then.recipe + "was\n" + now.recipe + "is";
  return then.plan == now.plan ? "" : "the plan differs: other tensors, shapes or specs";
}

std::filesystem::path RunJournal::path_of(const std::filesystem::path& output) {
  std::error_code ignored;
  std::filesystem::path path = std::filesystem::is_symlink(output, ignored)
                                   ? std::filesystem::weakly_canonical(output, ignored)
                                   : output;
  return path += ".partial.journal";
}

std::optional<JournalContents> RunJournal::read(const std::filesystem::path& output) {
  const OwnFiles own;
  const Result<MappedFile> file = MappedFile::open(path_of(output));
  if (!file.ok()) return std::nullopt;
  const std::span<const std::byte> bytes = file.value().bytes();
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  JournalContents contents;
  try {
    const std::optional<json> first = next_line(text);
    if (!first) return std::nullopt;
    contents.identity = identity_from(*first);
    contents.begin = bytes.size() - text.size();
    while (const std::optional<json> line = next_line(text)) {
      JournalEntry entry = entry_from(*line);
      if (entry.tensor != contents.entries.size()) break;
      contents.entries.push_back(std::move(entry));
      contents.ends.push_back(bytes.size() - text.size());
    }
  } catch (const json::exception&) {
    return std::nullopt;  // whole lines of another kind: no journal of ours
  }
  return contents;
}

std::optional<JournalContents> RunJournal::to_continue(const std::filesystem::path& output,
                                                       const RunIdentity& identity) {
  std::optional<JournalContents> left = read(output);
  if (!left) return std::nullopt;
  if (const std::string why = difference(left->identity, identity); !why.empty())
    throw Error("cannot continue " + quote_text(output.string()) + ": " + why +
                "\nwithout --resume the run starts afresh");
  return left;
}

void RunJournal::discard(const std::filesystem::path& output) {
  const std::filesystem::path path = path_of(output);
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0) return StationFiles(output).remove_from(0);
  refuse_input(path, output);
  const bool is_own = S_ISREG(info.st_mode) && (is_marked_partial(info) || info.st_size == 0 || read(output));
  if (!is_own)
    throw Error("the run into " + quote_text(output.native()) + " keeps its journal in " +
                quote_text(path.native()) +
                ", which exists and which no run of crumb left there; move it away or choose another output");
  if (::unlink(path.c_str()) != 0) throw cannot_write(path, errno);
  StationFiles(output).remove_from(0);  // nobody's from here on
}

RunJournal::RunJournal(const std::filesystem::path& output, const RunIdentity& identity, uint64_t continued)
    : path_(path_of(output)) {
  if (continued == 0) discard(output);
  fd_ = ::open(path_.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
               0666 | kPartialMark);
  if (fd_ < 0) throw cannot_write(path_, errno);
  struct stat info = {};
  if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(std::exchange(fd_, -1));
    throw Error("cannot write " + quote_text(path_.native()) + ": it exists and is not a regular file");
  }
  try {
    if (::ftruncate(fd_, static_cast<off_t>(continued)) != 0) throw cannot_write(path_, errno);
    if (continued == 0) write_line(to_json(identity).dump());
  } catch (...) {
    ::close(std::exchange(fd_, -1));
    if (continued == 0) ::unlink(path_.c_str());
    throw;
  }
}

RunJournal::~RunJournal() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (!keeps_) ::unlink(path_.c_str());
}

void RunJournal::add(const JournalEntry& entry) { write_line(to_json(entry).dump()); }

void RunJournal::write_line(const std::string& json) {
  const std::string line = crc_text(json) + " " + json + "\n";
  for (size_t done = 0; done < line.size();) {
    const ssize_t count = ::write(fd_, line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw cannot_write(path_, count < 0 ? errno : ENOSPC);
    done += static_cast<size_t>(count);
  }
}

}  // namespace crumb
