// SPDX-License-Identifier: Apache-2.0
#include "kernel/bpf_log.h"

#include <bpf/libbpf.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <utility>

#include "base/parse.h"

namespace forestall::kernel {
namespace {

// A verifier log can take megabytes and libbpf prints all of it; only its last lines matter.
constexpr std::size_t kLongestMessage = 64 * 1024;

thread_local std::string* sink = nullptr;

[[gnu::format(printf, 2, 0)]] int collect(libbpf_print_level level, const char* format,
                                          va_list arguments) {
  if (sink == nullptr || level != LIBBPF_WARN) return 0;
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  if (length > 0) {
    std::string message(static_cast<std::size_t>(length) + 1, '\0');
    std::vsnprintf(message.data(), message.size(), format, again);
    message.pop_back();
    if (message.size() > kLongestMessage) message.erase(0, message.size() - kLongestMessage);
    *sink += message;
  }
  va_end(again);
  return 0;
}

// Lines that every log contains.
bool is_noise(std::string_view line) {
  return line.empty() || line.starts_with("processed ") || line.starts_with("-- ") ||
         line.find("PROG LOAD LOG --") != std::string_view::npos;
}

}  // namespace

BpfLog::BpfLog() : previous_(std::exchange(sink, &text_)) {
  libbpf_set_print(collect);
}

BpfLog::~BpfLog() {
  sink = previous_;
}

std::string summarize_bpf_log(std::string_view log) {
  constexpr std::string_view kPrefix = "libbpf: ";
  std::string first;
  std::string verdict;
  bool in_verifier_log = false;
  while (!log.empty()) {
    std::string_view line = trim(next_field(log, '\n'));
    if (line.find("BEGIN PROG LOAD LOG") != std::string_view::npos) in_verifier_log = true;
    if (line.find("END PROG LOAD LOG") != std::string_view::npos) in_verifier_log = false;
    if (is_noise(line)) continue;
    if (line.starts_with(kPrefix)) {
      if (first.empty()) first = line.substr(kPrefix.size());
    } else if (in_verifier_log) {
      verdict = line;
    }
  }
  if (verdict.empty()) return first;
  return first + " (verifier: " + verdict + ")";
}

}  // namespace forestall::kernel
