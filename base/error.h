// How Crumb reports errors. Two façades over one message:
//
//  - Readers of outside bytes return Result<T>: a value, or a Failure whose message says what was found, what
//    was expected and where. They never throw on bad bytes.
//  - People (command line, API misuse) get one exception type, crumb::Error, whose message names the tensor
//    or option, what was expected, what was found and what to do.
//
// Result<T>::take() turns a Failure into an Error.
//
// The library never prints, aborts or exits.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace crumb {

/// What a caller can do about an Error; the command line derives its exit code from it.
enum class ErrorKind {
  kFailed,       ///< the work could not be done (exit code 1)
  kUsage,        ///< a bad flag, spec, scheme or recipe (exit code 2)
  kInterrupted,  ///< a person asked to stop (exit code 130)
};

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ErrorKind kind = ErrorKind::kFailed)
      : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// A wrong spec, option or recipe: Error with ErrorKind::kUsage.
inline Error usage_error(const std::string& message) { return Error(message, ErrorKind::kUsage); }

/// Why a reader refused its input, as one sentence for people.
struct Failure {
  std::string message;
};

/// A value or a Failure. Example:
///   Result<Header> header = parse_header(bytes);
///   if (!header.ok()) return header.failure();   // pass it on, or
///   use(header.value());                         // precondition: ok()
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}            // NOLINT: implicit
  Result(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  T& value() { return std::get<0>(state_); }
  const T& value() const { return std::get<0>(state_); }
  const Failure& failure() const { return std::get<1>(state_); }

  /// Moves the value out, or throws crumb::Error with "context: " before the failure's message.
  T take(const std::string& context = {}) {
    if (ok()) return std::move(std::get<0>(state_));
    throw Error(context.empty() ? failure().message : context + ": " + failure().message);
  }

 private:
  std::variant<T, Failure> state_;
};

/// The result of a check that yields nothing: ok, or a Failure.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Failure failure) : failed_(true), failure_(std::move(failure)) {}  // NOLINT: implicit

  bool ok() const { return !failed_; }
  const Failure& failure() const { return failure_; }
  void take(const std::string& context = {}) const {
    if (failed_) throw Error(context.empty() ? failure_.message : context + ": " + failure_.message);
  }

 private:
  bool failed_ = false;
  Failure failure_;
};

}  // namespace crumb
