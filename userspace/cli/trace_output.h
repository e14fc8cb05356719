// SPDX-License-Identifier: Apache-2.0
// Where the events of a trace go: standard output, as text, as JSON (one event a line) or as
// protobuf (each event behind its length as a varint). Whoever reads slower than the kernel tells
// makes the trace wait here, and the kernel drops and counts what its ring has no room for. A
// reader that stands still, as a pager does, does not keep the trace from being ended.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "cli/trace_question.h"
#include "cli/trace_text.h"
#include "forestall/v1/event.pb.h"

namespace forestall::cli {

class TraceOutput {
 public:
  // `fd` is written to and not closed. `stop` becomes readable when the trace is to end: who does
  // not read gets kLastPatience from then on for all that is left, which is lost after that.
  TraceOutput(int fd, int stop, TraceFormat format, bool color);
  static constexpr Duration kLastPatience = std::chrono::seconds(1);

  void write(const v1::Event& event);
  // The names of the columns, where there are any.
  void write_head();
  // Hands on what was written. False: nobody reads any more, or it cannot be written.
  bool flush();
  // What kept it from being written, if it was not that nobody reads.
  [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }
  [[nodiscard]] std::uint64_t written() const { return written_; }

 private:
  static constexpr std::size_t kFlushBytes = 64 * 1024;

  // Writes what `fd_` takes at once; less than 0: see errno.
  [[nodiscard]] ssize_t put(std::string_view bytes) const;
  // Whether `fd_` takes more; false: there is no time left.
  [[nodiscard]] bool wait_writable();

  // The same file as it was given, opened again so that writing to it does not wait: that mode is
  // the open file's, which others have as well. Invalid: it cannot be.
  UniqueFd own_;
  bool socket_ = false;  // there, each write says for itself that it does not wait
  int fd_;
  int stop_;
  std::optional<MonotonicTime> last_;  // set: the trace is to end
  TraceFormat format_;
  TraceText text_;
  std::string buffer_;
  std::uint64_t written_ = 0;
  bool broken_ = false;
  std::optional<Error> failure_ = std::nullopt;
};

}  // namespace forestall::cli
