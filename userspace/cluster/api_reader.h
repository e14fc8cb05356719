// SPDX-License-Identifier: Apache-2.0
// Reads from the API server, one request after another: for commands, which end with the answer.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "kubernetes/http_client.h"

namespace forestall::text {
class JsonValue;
}

namespace forestall::cluster {

// Thread rule: one thread.
class ApiReader {
 public:
  // Of one answer: the pods of a full node have a few MiB.
  static constexpr std::size_t kBytesMax = std::size_t{64} << 20;
  // Of one answer, until it is complete.
  static constexpr Duration kTimeout = std::chrono::seconds(30);
  // Objects in one answer of each().
  static constexpr int kPageSize = 500;

  // Errors: libcurl cannot be used.
  static Result<ApiReader> create(const kubernetes::Access& access);

  // The answer; nothing: the server has no such object (404). Errors: every other failure.
  [[nodiscard]] Result<std::optional<std::string>> find(const std::string& target);
  // The same, where a missing object is an error.
  [[nodiscard]] Result<std::string> get(const std::string& target);
  // Each item of the list `target`, page by page. `target` has no query or ends with a parameter.
  // False: the server has no such list.
  [[nodiscard]] Result<bool> each(const std::string& target,
                                  const std::function<Result<void>(const text::JsonValue&)>& visit);

 private:
  struct ReadAnswer {
    int code = 0;
    std::string text;
  };

  explicit ApiReader(std::unique_ptr<kubernetes::HttpClient> client) : client_(std::move(client)) {}
  [[nodiscard]] Result<ReadAnswer> read(const std::string& target);

  std::unique_ptr<kubernetes::HttpClient> client_;
};

}  // namespace forestall::cluster
