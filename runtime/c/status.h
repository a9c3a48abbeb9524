// How the C interface fails: exceptions become statuses here, and nowhere else. Internal to runtime/c.
#pragma once

#define CRUMB_API __attribute__((visibility("default")))
#include <cstdint>
#include <exception>
#include <new>
#include <string>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "graph/not_finite.h"
#include "runtime/crumb.h"
#include "runtime/meter.h"

namespace crumb::runtime::c {

/// What crumb_error() says to this thread.
inline std::string& last_error() {
  thread_local std::string text;
  return text;
}

inline crumb_status failed(crumb_status status, const char* why) noexcept {
  try {
    last_error() = why;
  } catch (...) {
    last_error().clear();
  }
  return status;
}

/// Calls work(). An Error that it throws becomes `status`.
template <class Work>
crumb_status guarded(crumb_status status, const Work& work) noexcept {
  try {
    work();
    return CRUMB_OK;
  } catch (const Stopped& stopped) {
    const bool cancelled = stopped.reason() == StopReason::kCancelled;
    return failed(cancelled ? CRUMB_ERROR_CANCELLED : CRUMB_ERROR_LIMIT, stopped.what());
  } catch (const Error& error) {
    return failed(status, error.what());
  } catch (const std::bad_alloc&) {
    return failed(CRUMB_ERROR_MEMORY, "there is not enough memory");
  } catch (const std::exception& error) {
    return failed(CRUMB_ERROR_RUN, error.what());
  } catch (const Interrupted&) {
    return failed(CRUMB_ERROR_CANCELLED, "interrupted");
  }
}

/// What a session or a decoding knows of values that reached quantizers and were not finite.
struct NotFiniteValues {
  graph::NotFiniteWatch watch;
  std::string node;  ///< the node that was reported last

  std::uint64_t tell(const graph::Graph& graph, const char** to) {
    const auto found = watch.first(&graph);
    node = found ? found->node : "";
    if (to) *to = node.c_str();
    return found ? found->count : 0;
  }
};

inline Limits limits_of(const crumb_options& options) {
  Limits limits;
  if (options.memory > 0) limits.memory = options.memory;
  if (options.work > 0) limits.work = options.work;
  return limits;
}

/// CRUMB_OK, or an error where the caller's options are wrong; `call` begins the message.
inline crumb_status check_options(const crumb_options& options, const std::string& call) {
  if (options.threads < 0)
    return failed(CRUMB_ERROR_ARGUMENT, (call + ": a negative number of threads").c_str());
  if (options.promise != CRUMB_EXACT && options.promise != CRUMB_FAST)
    return failed(CRUMB_ERROR_ARGUMENT, (call + ": a promise that is none").c_str());
  return CRUMB_OK;
}

}  // namespace crumb::runtime::c
