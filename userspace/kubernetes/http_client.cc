// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/http_client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include "base/parse.h"
#include "base/printable.h"

namespace forestall::kubernetes {
namespace {

constexpr long kConnectSeconds = 10;
// A dead peer is found within kKeepaliveIdle + 3 * kKeepaliveInterval or so, long before the
// bookmarks of a watch are missed.
constexpr long kKeepaliveIdle = 20;
constexpr long kKeepaliveInterval = 10;
// After that a connection is not used again, so that a replaced authority comes into effect.
constexpr long kConnectionSeconds = 600;

struct EndEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct EndMulti {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
struct EndList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Easy = std::unique_ptr<CURL, EndEasy>;
using Multi = std::unique_ptr<CURLM, EndMulti>;
using List = std::unique_ptr<curl_slist, EndList>;

bool start_library() {
  static std::once_flag once;
  static bool works = false;
  std::call_once(once, [] { works = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK; });
  return works;
}

void append(List& list, const std::string& line) {
  curl_slist* longer = curl_slist_append(list.get(), line.c_str());
  if (longer == nullptr) return;
  (void)list.release();
  list.reset(longer);
}

// The value of the header `name` in `line`, if it is that header.
std::optional<std::string_view> header_value(std::string_view line, std::string_view name) {
  if (line.size() <= name.size() || line[name.size()] != ':') return std::nullopt;
  const bool same = std::equal(name.begin(), name.end(), line.begin(), [](char a, char b) {
    return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b);
  });
  if (!same) return std::nullopt;
  return trim(line.substr(name.size() + 1));
}

// "https://HOST:PORT" as host, with brackets if there are any, and port.
std::pair<std::string, std::string> host_and_port(std::string_view server) {
  const bool is_tls = server.starts_with("https://");
  server.remove_prefix(server.find("://") + 3);
  server = server.substr(0, server.find('/'));
  const std::size_t bracket = server.find(']');
  const std::size_t colon = server.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon == std::string_view::npos) return {std::string(server), is_tls ? "443" : "80"};
  return {std::string(server.substr(0, colon)), std::string(server.substr(colon + 1))};
}

}  // namespace

struct HttpClient::Handles {
  Multi multi;
};

struct HttpClient::Transfer {
  Transfer(RequestId number, HttpReceiver& to) : id(number), receiver(to) {}

  const RequestId id;
  HttpReceiver& receiver;
  Easy easy{curl_easy_init()};
  List headers;
  List connect_to;
  std::array<char, CURL_ERROR_SIZE> problem{};
  ResponseHead head;
  bool head_passed = false;

  // libcurl calls it for each line of the head, of the heads of 1xx answers, and of trailers.
  static std::size_t on_header(char* bytes, std::size_t, std::size_t size, void* self) {
    static_cast<Transfer*>(self)->take_header({bytes, size});
    return size;
  }
  static std::size_t on_body(char* bytes, std::size_t, std::size_t size, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    return transfer.receiver.body({bytes, size}) ? size : 0;
  }

  void take_header(std::string_view line) {
    if (head_passed) return;
    if (line.starts_with("HTTP/")) head = {};
    if (const auto value = header_value(line, "retry-after")) head.retry_after = *value;
    if (const auto value = header_value(line, "date")) head.date = *value;
    if (!trim(line).empty()) return;
    long code = 0;
    curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &code);
    if (code < 200) return;
    head.code = static_cast<int>(code);
    head_passed = true;
    receiver.head(head);
  }
};

HttpClient::HttpClient(Access access, std::unique_ptr<Handles> handles)
    : access_(std::move(access)), handles_(std::move(handles)) {}

HttpClient::~HttpClient() {
  while (!transfers_.empty()) cancel(transfers_.begin()->first);
}

Result<std::unique_ptr<HttpClient>> HttpClient::create(Access access) {
  if (!start_library()) return error("libcurl cannot be initialized");
  auto handles = std::make_unique<Handles>();
  handles->multi.reset(curl_multi_init());
  if (!handles->multi) return error("libcurl: out of memory");
  curl_multi_setopt(handles->multi.get(), CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
  curl_multi_setopt(handles->multi.get(), CURLMOPT_MAXCONNECTS, 4L);
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(access), std::move(handles)));
}

Result<HttpClient::RequestId> HttpClient::start(const OutgoingRequest& request,
                                                HttpReceiver& receiver) {
  auto transfer = std::make_unique<Transfer>(++last_, receiver);
  if (!transfer->easy) return error("libcurl: out of memory");
  TRY(set_up(*transfer, request));
  const CURLMcode added = curl_multi_add_handle(handles_->multi.get(), transfer->easy.get());
  if (added != CURLM_OK) return error(fmt::format("libcurl: {}", curl_multi_strerror(added)));
  const RequestId id = transfer->id;
  transfers_[id] = std::move(transfer);
  return id;
}

Result<void> HttpClient::set_up(Transfer& transfer, const OutgoingRequest& request) {
  CURL* easy = transfer.easy.get();
  const std::string token = TRY(current_token(access_));
  if (!token.empty()) append(transfer.headers, "Authorization: Bearer " + token);
  append(transfer.headers, "Accept: application/json");
  append(transfer.headers, "Expect:");
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  if (!request.body.empty()) {
    append(transfer.headers, "Content-Type: " + request.content_type);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, static_cast<long>(request.body.size()));
    curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, request.body.c_str());
  }
  set_address(transfer, request);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer.headers.get());
  curl_easy_setopt(easy, CURLOPT_PRIVATE, &transfer);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer.problem.data());
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "forestall/" FORESTALL_VERSION);
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, kKeepaliveIdle);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, kKeepaliveInterval);
  curl_easy_setopt(easy, CURLOPT_MAXLIFETIME_CONN, kConnectionSeconds);
  if (request.longest) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(*request.longest);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(ms.count()));
  }
  return set_trust(transfer);
}

// For another name in the certificate than in the address, the URL has that name, and libcurl
// connects to the address.
void HttpClient::set_address(Transfer& transfer, const OutgoingRequest& request) {
  CURL* easy = transfer.easy.get();
  std::string url = access_.server + request.target;
  if (!access_.server_name.empty()) {
    const auto [host, port] = host_and_port(access_.server);
    const std::size_t begin = access_.server.find("://") + 3;
    const std::size_t end = std::min(access_.server.find('/', begin), access_.server.size());
    url = fmt::format("{}{}:{}{}{}", access_.server.substr(0, begin), access_.server_name, port,
                      access_.server.substr(end), request.target);
    append(transfer.connect_to, fmt::format("::{}:{}", host, port));
    curl_easy_setopt(easy, CURLOPT_CONNECT_TO, transfer.connect_to.get());
  }
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  // check_server() admits only these two, and "http" for this host only.
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR,
                   access_.server.starts_with("https://") ? "https" : "http");
  // "a/../b" is a name that a tenant may choose, not a path to simplify.
  curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
}

Result<void> HttpClient::set_trust(Transfer& transfer) {
  CURL* easy = transfer.easy.get();
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(easy, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  // Otherwise libcurl keeps the certificates of a file for a day.
  curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
  const auto blob_of = [](const std::string& text) {
    return curl_blob{const_cast<char*>(text.data()), text.size(), CURL_BLOB_COPY};
  };
  CURLcode code = CURLE_OK;
  const auto set = [&](const PemSource& pem, CURLoption file, CURLoption text) {
    if (code != CURLE_OK || pem.empty()) return;
    curl_blob blob = blob_of(pem.text);
    code = pem.text.empty() ? curl_easy_setopt(easy, file, pem.file.c_str())
                            : curl_easy_setopt(easy, text, &blob);
  };
  // The system's directory of authorities would be trusted beside the given one.
  if (!access_.ca.empty()) code = curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);
  set(access_.ca, CURLOPT_CAINFO, CURLOPT_CAINFO_BLOB);
  set(access_.client_certificate, CURLOPT_SSLCERT, CURLOPT_SSLCERT_BLOB);
  set(access_.client_key, CURLOPT_SSLKEY, CURLOPT_SSLKEY_BLOB);
  if (code != CURLE_OK) return error(fmt::format("libcurl: {}", curl_easy_strerror(code)));
  return {};
}

void HttpClient::cancel(RequestId id) {
  const auto found = transfers_.find(id);
  if (found == transfers_.end()) return;
  curl_multi_remove_handle(handles_->multi.get(), found->second->easy.get());
  transfers_.erase(found);
}

void HttpClient::advance() {
  int running = 0;
  curl_multi_perform(handles_->multi.get(), &running);
  std::vector<std::pair<RequestId, CURLcode>> over;
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(handles_->multi.get(), &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    char* self = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &self);
    over.emplace_back(reinterpret_cast<Transfer*>(self)->id, message->data.result);
  }
  for (const auto& [id, result] : over) {
    const auto found = transfers_.find(id);
    if (found == transfers_.end()) continue;
    const std::unique_ptr<Transfer> transfer = std::move(found->second);
    transfers_.erase(found);
    curl_multi_remove_handle(handles_->multi.get(), transfer->easy.get());
    std::optional<Error> failure;
    if (result != CURLE_OK) {
      const bool has_text = transfer->problem.front() != '\0';
      failure = error(
          fmt::format("{}: {}", access_.server,
                      printable(has_text ? transfer->problem.data() : curl_easy_strerror(result))));
    }
    transfer->receiver.end(failure);
  }
}

Result<void> HttpClient::wait(std::span<pollfd> others, Duration longest) {
  std::vector<curl_waitfd> fds;
  for (const pollfd& each : others) fds.push_back({each.fd, each.events, 0});
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(longest).count();
  const int timeout = static_cast<int>(std::clamp<std::int64_t>(ms, 0, 3'600'000));
  const CURLMcode code = curl_multi_poll(handles_->multi.get(), fds.data(),
                                         static_cast<unsigned>(fds.size()), timeout, nullptr);
  if (code != CURLM_OK) return error(fmt::format("libcurl: {}", curl_multi_strerror(code)));
  for (std::size_t i = 0; i < fds.size(); ++i) others[i].revents = fds[i].revents;
  return {};
}

}  // namespace forestall::kubernetes
