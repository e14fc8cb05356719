// SPDX-License-Identifier: Apache-2.0
#include "cluster/api_reader.h"

#include <fmt/format.h>

#include <utility>

#include "kubernetes/api_status.h"
#include "kubernetes/url.h"
#include "text/json_value.h"

namespace forestall::cluster {
namespace {

constexpr int kNotFound = 404;

Error refusal(const std::string& target, int code, const std::string& body) {
  return error(fmt::format("GET {}: {}", target, kubernetes::parse_api_status(code, body).text()));
}

}  // namespace

Result<ApiReader> ApiReader::create(const kubernetes::Access& access) {
  return ApiReader(TRY(kubernetes::HttpClient::create(access)));
}

Result<ApiReader::ReadAnswer> ApiReader::read(const std::string& target) {
  kubernetes::OutgoingRequest request;
  request.target = target;
  request.longest = kTimeout;
  kubernetes::AnswerCollector answer(kBytesMax);
  TRY(client_->start(request, answer));
  client_->advance();
  while (!answer.over()) {
    TRY(client_->wait({}, kTimeout));
    client_->advance();
  }
  if (answer.failure()) return answer.failure()->in("GET " + target);
  return ReadAnswer{answer.head().code, std::move(answer).take_text()};
}

Result<std::optional<std::string>> ApiReader::find(const std::string& target) {
  ReadAnswer answer = TRY(read(target));
  if (answer.code == kNotFound) return std::optional<std::string>();
  if (answer.code != 200) return refusal(target, answer.code, answer.text);
  return std::optional(std::move(answer.text));
}

Result<std::string> ApiReader::get(const std::string& target) {
  auto found = TRY(find(target));
  if (!found) return error(fmt::format("GET {}: the API server has no such object", target));
  return *std::move(found);
}

Result<bool> ApiReader::each(const std::string& target,
                             const std::function<Result<void>(const text::JsonValue&)>& visit) {
  const char join = target.find('?') == std::string::npos ? '?' : '&';
  std::string next;
  do {
    std::string page = fmt::format("{}{}limit={}", target, join, kPageSize);
    if (!next.empty()) page += "&continue=" + kubernetes::percent_encoded(next);
    const auto body = TRY(find(page));
    if (!body) return false;
    const auto document = TRY(text::JsonDocument::parse(*body));
    const text::JsonValue root = document.root();
    if (const auto listed = root.each_in("items", visit); !listed) {
      return listed.error().in("GET " + page);
    }
    const auto metadata = TRY(root.find("metadata"));
    next = metadata ? TRY(metadata->text("continue")) : "";
  } while (!next.empty());
  return true;
}

}  // namespace forestall::cluster
