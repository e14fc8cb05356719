// SPDX-License-Identifier: Apache-2.0
// Writes the events of a trace to standard output: as text, as JSON (one event per line), or as
// protobuf (each event after its length as a varint). A slow reader blocks the trace here; the
// kernel then drops and counts events that do not fit its ring. A reader that stops reading, such
// as a pager, does not prevent the end of the trace.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "forestall/v1/event.pb.h"
#include "trace/trace_question.h"
#include "trace/trace_text.h"

namespace forestall::trace {

class TraceOutput {
 public:
  // Writes to `fd` without closing it. `stop` becomes readable when the trace ends. The reader then
  // has kLastPatience to read the rest; what remains is lost.
  TraceOutput(int fd, int stop, TraceFormat format, bool color);
  static constexpr Duration kLastPatience = std::chrono::seconds(1);

  void write(const v1::Event& event);
  // Column headings, if the format has them.
  void write_head();
  // Flushes the buffer. False: the reader has closed it, or writing failed.
  bool flush();
  // The write error, unless the reader has closed the output.
  [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }
  [[nodiscard]] std::uint64_t written() const { return written_; }

 private:
  static constexpr std::size_t kFlushBytes = 64 * 1024;

  // Writes what `fd_` accepts at once; below 0: see errno.
  [[nodiscard]] ssize_t put(std::string_view bytes) const;
  // Waits until `fd_` accepts more. False: the time is over.
  [[nodiscard]] bool wait_writable();

  // The same file, opened again for non-blocking writes: O_NONBLOCK belongs to the open file
  // description, which other processes share. Invalid: it cannot be opened.
  UniqueFd own_;
  bool socket_ = false;  // a socket: each write passes MSG_DONTWAIT
  int fd_;
  int stop_;
  std::optional<MonotonicTime> last_;  // set: the trace ends
  TraceFormat format_;
  TraceText text_;
  std::string buffer_;
  std::uint64_t written_ = 0;
  bool broken_ = false;
  std::optional<Error> failure_ = std::nullopt;
};

}  // namespace forestall::trace
