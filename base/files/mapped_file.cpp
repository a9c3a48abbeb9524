#include "base/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/files/inputs.h"
#include "base/files/text.h"

namespace crumb {
namespace {

Failure cannot(const char* what, const std::filesystem::path& path, const std::string& why) {
  return Failure{std::string("cannot ") + what + " " + quote_text(path.native()) + ": " + why};
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

std::string errno_text(int code) { return std::generic_category().message(code); }

MappedFile::MappedFile(std::filesystem::path path, const std::byte* data, std::size_t size)
    : path_(std::move(path)), data_(data), size_(size) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // Non-blocking, so that a pipe without a writer is refused instead of waited for.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return cannot("open", path, errno_text(errno));
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) return cannot("read", path, errno_text(errno));
  if (S_ISDIR(info.st_mode)) return cannot("read", path, "it is a folder, expected a file");
  if (!S_ISREG(info.st_mode)) return cannot("read", path, "it is not a regular file");
  note_input(file.get(), path);
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return MappedFile(path, nullptr, 0);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) return cannot("map", path, errno_text(errno));
  return MappedFile(path, static_cast<const std::byte*>(data), size);
}

void MappedFile::release(std::uint64_t offset, std::uint64_t length) const {
  static const auto kPage = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (offset >= size_) return;
  const std::uint64_t last = offset + std::min<std::uint64_t>(length, size_ - offset);
  const std::uint64_t begin = offset / kPage * kPage;
  const std::uint64_t end = last == size_ ? last : last / kPage * kPage;
  if (begin < end) ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

void MappedFile::release(std::span<const std::byte> part) const {
  if (!part.empty()) release(static_cast<std::uint64_t>(part.data() - data_), part.size());
}

Result<std::string> read_text_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return file.failure();
  const std::span<const std::byte> bytes = file.value().bytes();
  if (bytes.size() > max_bytes)
    return cannot(
        "read", path,
        "it holds " + byte_text(bytes.size()) + ", at most " + std::to_string(max_bytes) + " are accepted");
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace crumb
