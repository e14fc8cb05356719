// SPDX-License-Identifier: Apache-2.0
// A client of HTTP/2 that can also misbehave: closed windows, unfinished requests, invalid bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"

struct nghttp2_session;

namespace forestall::test {

// The result of one request.
struct H2Answer {
  std::map<std::string, std::string> fields;  // headers and trailers
  std::string body;
  bool ended = false;                   // the server has ended its side
  std::optional<std::uint32_t> closed;  // how the stream ended: an HTTP/2 error code
};

class H2Client {
 public:
  struct Habits {
    std::uint32_t window = 65535;  // of each stream; of the connection, if that is more
    bool opens_windows = true;     // returns read bytes to the windows
  };

  explicit H2Client(const std::string& socket) : H2Client(socket, Habits()) {}
  H2Client(const std::string& socket, Habits habits);
  ~H2Client();

  // A gRPC request. `more` fields follow those of gRPC; one of the same name replaces it. Without
  // `ends` the request stays open.
  std::int32_t request(const std::string& path, std::string_view body, bool ends = true,
                       const std::map<std::string, std::string>& more = {});
  // Ends an open request, or resets any.
  void reset(std::int32_t stream, std::uint32_t error_code);
  // Waits until the socket took all requests and resets. A reset of a queued request cancels it.
  bool flush() {
    return run_until([this] { return unsent_.empty(); });
  }
  // Raw bytes without framing.
  void send_raw(std::string_view bytes);
  // The client will send nothing more.
  void half_close();

  // Sends what is queued and reads until `done`, the deadline, or the server closes the connection.
  // Returns whether it was done.
  bool run_until(const std::function<bool()>& done, Duration patience = std::chrono::seconds(30));
  // Until the stream is closed.
  bool finish(std::int32_t stream) {
    return run_until([this, stream] { return answers_[stream].closed.has_value(); });
  }
  // Until the server has closed the connection.
  bool wait_closed(Duration patience = std::chrono::seconds(30)) {
    run_until([] { return false; }, patience);
    return hung_up_;
  }

  [[nodiscard]] H2Answer& answer(std::int32_t stream) { return answers_[stream]; }
  [[nodiscard]] bool hung_up() const { return hung_up_; }
  // The error code of a GOAWAY, if one came.
  [[nodiscard]] std::optional<std::uint32_t> goodbye() const { return goodbye_; }
  [[nodiscard]] int fd() const { return socket_.get(); }

 private:
  struct Callbacks;
  struct Body;
  struct EndSession {
    void operator()(nghttp2_session* session) const;
  };
  void send();
  void receive();

  UniqueFd socket_;
  std::map<std::int32_t, H2Answer> answers_;
  std::vector<std::unique_ptr<Body>> bodies_;
  std::optional<std::uint32_t> goodbye_;
  bool hung_up_ = false;
  std::string unsent_;
  std::unique_ptr<nghttp2_session, EndSession> session_;
};

}  // namespace forestall::test
