// SPDX-License-Identifier: Apache-2.0
// Requests to the API server over TLS and HTTP/2 or HTTP/1.1, on libcurl.
//
// Each request that is under way has a connection of its own, so that a dead watch delays no
// command; idle connections are used again. The token and the files of certificates are read for
// each request and each connection. Only the configured authority is trusted, redirects are not
// followed, and no variable of the environment (proxies, .netrc) has an effect.
#pragma once

#include <poll.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/result.h"
#include "kubernetes/access.h"
#include "kubernetes/list_watch.h"

namespace forestall::kubernetes {

struct OutgoingRequest {
  std::string method = "GET";
  std::string target;                             // path and query
  std::string content_type = "application/json";  // of `body`
  std::string body;
  std::optional<Duration> longest;  // until the answer is complete; nothing: no limit
  std::shared_ptr<const Access> server = nullptr;  // another one than the client's; null: that
};

// Called from HttpClient::advance() only, and not after cancel().
class HttpReceiver {
 public:
  virtual ~HttpReceiver() = default;
  virtual void head(const ResponseHead& head) = 0;
  // False: cancels the request; end() follows.
  [[nodiscard]] virtual bool body(std::string_view bytes) = 0;
  // The last call; `failure`: without a complete answer. May start other requests.
  virtual void end(const std::optional<Error>& failure) = 0;
};

// An answer as a whole, for requests with short ones.
class AnswerCollector final : public HttpReceiver {
 public:
  static constexpr std::size_t kBytesMax = std::size_t{1} << 20;

  AnswerCollector() = default;
  explicit AnswerCollector(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  void head(const ResponseHead& head) override { head_ = head; }
  [[nodiscard]] bool body(std::string_view bytes) override {
    if (text_.size() + bytes.size() > bytes_max_) return false;
    text_ += bytes;
    return true;
  }
  void end(const std::optional<Error>& failure) override {
    failure_ = failure;
    over_ = true;
  }

  [[nodiscard]] bool over() const { return over_; }
  // Code 0: no answer.
  [[nodiscard]] const ResponseHead& head() const { return head_; }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::string take_text() && { return std::move(text_); }
  [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }

 private:
  std::size_t bytes_max_ = kBytesMax;
  ResponseHead head_;
  std::string text_;
  std::optional<Error> failure_;
  bool over_ = false;
};

// Thread rule: one thread.
class HttpClient {
 public:
  using RequestId = std::uint64_t;

  // Errors: libcurl cannot be used.
  static Result<std::unique_ptr<HttpClient>> create(Access access);
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  // Cancels all requests.
  ~HttpClient();

  // `receiver` outlives the request. Errors: the token or a certificate cannot be read, or libcurl
  // refuses an option, for example without memory.
  [[nodiscard]] Result<RequestId> start(const OutgoingRequest& request, HttpReceiver& receiver);
  // Does nothing if the request is over. Not from a receiver.
  void cancel(RequestId id);
  // Sends and receives as much as possible without blocking. The next wait() returns its error.
  void advance();
  // Waits until advance() has work, one of `others` is ready, or `longest` is over. Errors: libcurl
  // failed in this call, or in advance() before it.
  [[nodiscard]] Result<void> wait(std::span<pollfd> others, Duration longest);

 private:
  struct Transfer;
  struct Handles;

  HttpClient(Access access, std::unique_ptr<Handles> handles);
  [[nodiscard]] static Result<void> set_up(Transfer& transfer, const OutgoingRequest& request);
  [[nodiscard]] static Result<void> set_trust(Transfer& transfer);
  [[nodiscard]] static Result<void> set_address(Transfer& transfer, const OutgoingRequest& request);

  const std::shared_ptr<const Access> access_;
  const std::unique_ptr<Handles> handles_;
  std::map<RequestId, std::unique_ptr<Transfer>> transfers_;
  RequestId last_ = 0;
  const char* failed_ = nullptr;  // why the last advance() failed; null: it did not
};

}  // namespace forestall::kubernetes
