// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_output.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "messages/json.h"

namespace forestall::trace {

TraceOutput::TraceOutput(int fd, int stop, TraceFormat format, bool color)
    : fd_(fd), stop_(stop), format_(format), text_(color) {
  struct stat file {};
  if (::fstat(fd, &file) != 0) return;
  socket_ = S_ISSOCK(file.st_mode);
  if (!S_ISFIFO(file.st_mode) && !S_ISCHR(file.st_mode)) return;
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  own_.reset(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (own_) fd_ = own_.get();
}

void TraceOutput::write(const v1::Event& event) {
  ++written_;
  switch (format_) {
    case TraceFormat::text: text_.append(event, buffer_); break;
    case TraceFormat::json:
      buffer_ += messages::to_json(event, messages::JsonStyle::line);
      buffer_ += '\n';
      break;
    case TraceFormat::pb: {
      using google::protobuf::io::CodedOutputStream;
      std::array<std::uint8_t, 10> length{};
      const auto* end =
          CodedOutputStream::WriteVarint64ToArray(event.ByteSizeLong(), length.data());
      buffer_.append(reinterpret_cast<const char*>(length.data()),
                     static_cast<std::size_t>(end - length.data()));
      event.AppendToString(&buffer_);
      break;
    }
  }
  if (buffer_.size() >= kFlushBytes) flush();
}

void TraceOutput::write_head() {
  if (format_ == TraceFormat::text) text_.head(buffer_);
}

bool TraceOutput::wait_writable() {
  const SystemClock clock;
  for (;;) {
    const Duration left = last_ ? *last_ - clock.now() : Duration::zero();
    if (last_ && left <= Duration::zero()) return false;
    std::array<pollfd, 2> wanted{{{fd_, POLLOUT, 0}, {last_ ? -1 : stop_, POLLIN, 0}}};
    const timespec limit{0, static_cast<long>(std::min(left, kLastPatience - Duration(1)).count())};
    if (::ppoll(wanted.data(), wanted.size(), last_ ? &limit : nullptr, nullptr) < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    if (wanted[0].revents != 0) return true;
    if (wanted[1].revents != 0) last_ = clock.now() + kLastPatience;
  }
}

ssize_t TraceOutput::put(std::string_view bytes) const {
  return socket_ ? ::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL)
                 : ::write(fd_, bytes.data(), bytes.size());
}

bool TraceOutput::flush() {
  std::size_t sent = 0;
  while (!broken_ && sent < buffer_.size()) {
    const ssize_t n = put(std::string_view(buffer_).substr(sent));
    if (n >= 0) {
      sent += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      broken_ = !wait_writable();
    } else if (errno != EINTR) {
      broken_ = true;
      if (errno != EPIPE && errno != ECONNRESET) failure_ = errno_error("write", "the events");
    }
  }
  buffer_.clear();
  return !broken_;
}

}  // namespace forestall::trace
