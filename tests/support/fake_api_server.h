// SPDX-License-Identifier: Apache-2.0
// An API server of Kubernetes as far as clients see it: HTTP/1.1 on a loopback port, with answers
// that a test makes, whole, in pieces, cut, late or never.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/unique_fd.h"

namespace forestall::test {

struct ApiRequest {
  std::string method;
  std::string target;                          // path and query
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

struct ApiAnswer {
  enum class Then : std::uint8_t {
    keep,   // waits for the next request
    close,  // closes the connection
    hold,   // leaves the answer open: send_held() continues it
  };
  std::string bytes;  // head and body
  Then then = Then::keep;
};

// A complete answer of JSON. `headers`: further lines, each with its line end.
[[nodiscard]] ApiAnswer json_answer(int code, std::string_view body, std::string_view headers = "");
// The begin of a watch, in chunks, with these lines.
[[nodiscard]] ApiAnswer watch_answer(std::string_view lines = "");
// `bytes` as a chunk of HTTP/1.1.
[[nodiscard]] std::string chunk(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

class FakeApiServer {
 public:
  // Called on the server's thread, one request at a time.
  using Answer = std::function<ApiAnswer(const ApiRequest&)>;

  explicit FakeApiServer(Answer answer);
  FakeApiServer(const FakeApiServer&) = delete;
  FakeApiServer& operator=(const FakeApiServer&) = delete;
  ~FakeApiServer();

  // "http://127.0.0.1:PORT".
  [[nodiscard]] const std::string& url() const { return url_; }
  // Sends bytes on all connections with an open answer to a request whose target contains `part`.
  void send_held(std::string_view bytes, std::string_view part = "");
  // Closes these connections.
  void cut_held(std::string_view part = "");
  // All requests so far.
  [[nodiscard]] std::vector<ApiRequest> requests() const;
  // Connections that were accepted so far.
  [[nodiscard]] std::size_t accepted() const { return accepted_.load(); }

 private:
  struct Connection;

  void serve();
  void accept_one();
  // False: the connection is over.
  [[nodiscard]] bool advance(Connection& connection);
  void do_orders();

  const Answer answer_;
  UniqueFd listening_;
  UniqueFd wake_;
  std::string url_;
  std::vector<std::unique_ptr<Connection>> connections_;  // the thread's

  mutable std::mutex mutex_;
  std::vector<ApiRequest> requests_;
  std::vector<std::function<void()>> orders_;  // for the thread
  std::atomic<std::size_t> accepted_{0};
  bool stopping_ = false;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace forestall::test
