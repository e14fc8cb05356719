// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/http_client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <type_traits>
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
// Of connections, idle or not: libcurl counts those of watches, too, and closes what is above it.
// More than the watches of a rebalancer and the requests that it sends at once.
constexpr long kConnectionsKept = 32;

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

// Sets the options of one transfer. After the first refusal it sets nothing.
class OptionSetter {
 public:
  explicit OptionSetter(CURL* easy) : easy_(easy) {}

  template <typename Value>
  void set(CURLoption option, Value value) {
    // curl_easy_setopt() has no types: it would read an int as long.
    static_assert(std::is_same_v<Value, long> || std::is_pointer_v<Value> ||
                  std::is_null_pointer_v<Value>);
    if (code_ == CURLE_OK) code_ = curl_easy_setopt(easy_, option, value);
  }
  // An option without which requests work as well, if this libcurl lacks it.
  void prefer(CURLoption option, long value) {
    const CURLcode before = code_;
    set(option, value);
    if (code_ == CURLE_UNSUPPORTED_PROTOCOL || code_ == CURLE_NOT_BUILT_IN) code_ = before;
  }
  void append(List& list, const std::string& line) {
    if (code_ != CURLE_OK) return;
    curl_slist* longer = curl_slist_append(list.get(), line.c_str());
    if (longer == nullptr) {
      code_ = CURLE_OUT_OF_MEMORY;
      return;
    }
    // curl_slist_append() returns the list, or the new head of an empty one.
    if (!list) list.reset(longer);
  }
  [[nodiscard]] Result<void> result() const {
    if (code_ == CURLE_OK) return {};
    return error(fmt::format("libcurl: {}", curl_easy_strerror(code_)));
  }

 private:
  CURL* easy_;
  CURLcode code_ = CURLE_OK;
};

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
  Transfer(RequestId number, std::shared_ptr<const Access> at, HttpReceiver& to)
      : id(number), access(std::move(at)), receiver(to) {}

  const RequestId id;
  const std::shared_ptr<const Access> access;
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
    : access_(std::make_shared<const Access>(std::move(access))), handles_(std::move(handles)) {}

HttpClient::~HttpClient() {
  while (!transfers_.empty()) cancel(transfers_.begin()->first);
}

Result<std::unique_ptr<HttpClient>> HttpClient::create(Access access) {
  if (!start_library()) return error("libcurl cannot be initialized");
  auto handles = std::make_unique<Handles>();
  handles->multi.reset(curl_multi_init());
  if (!handles->multi) return error("libcurl: out of memory");
  for (const auto& [option, value] : {std::pair(CURLMOPT_PIPELINING, CURLPIPE_NOTHING),
                                      std::pair(CURLMOPT_MAXCONNECTS, kConnectionsKept)}) {
    const CURLMcode set = curl_multi_setopt(handles->multi.get(), option, value);
    if (set != CURLM_OK) return error(fmt::format("libcurl: {}", curl_multi_strerror(set)));
  }
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(access), std::move(handles)));
}

Result<HttpClient::RequestId> HttpClient::start(const OutgoingRequest& request,
                                                HttpReceiver& receiver) {
  auto transfer =
      std::make_unique<Transfer>(++last_, request.server ? request.server : access_, receiver);
  if (!transfer->easy) return error("libcurl: out of memory");
  TRY(set_up(*transfer, request));
  const CURLMcode added = curl_multi_add_handle(handles_->multi.get(), transfer->easy.get());
  if (added != CURLM_OK) return error(fmt::format("libcurl: {}", curl_multi_strerror(added)));
  const RequestId id = transfer->id;
  transfers_[id] = std::move(transfer);
  return id;
}

Result<void> HttpClient::set_up(Transfer& transfer, const OutgoingRequest& request) {
  const std::string token = TRY(current_token(*transfer.access));
  OptionSetter options(transfer.easy.get());
  if (!token.empty()) options.append(transfer.headers, "Authorization: Bearer " + token);
  options.append(transfer.headers, "Accept: application/json");
  options.append(transfer.headers, "Expect:");
  options.set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  if (!request.body.empty()) {
    options.append(transfer.headers, "Content-Type: " + request.content_type);
    options.set(CURLOPT_POSTFIELDSIZE, static_cast<long>(request.body.size()));
    options.set(CURLOPT_COPYPOSTFIELDS, request.body.c_str());
  }
  TRY(set_address(transfer, request));
  options.set(CURLOPT_HTTPHEADER, transfer.headers.get());
  options.set(CURLOPT_PRIVATE, &transfer);
  options.set(CURLOPT_ERRORBUFFER, transfer.problem.data());
  options.set(CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  options.set(CURLOPT_HEADERDATA, &transfer);
  options.set(CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  options.set(CURLOPT_WRITEDATA, &transfer);
  options.set(CURLOPT_USERAGENT, "forestall/" FORESTALL_VERSION);
  options.prefer(CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS);
  options.set(CURLOPT_NOSIGNAL, 1L);
  options.set(CURLOPT_FOLLOWLOCATION, 0L);
  options.set(CURLOPT_PROXY, "");
  options.set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  options.set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  options.set(CURLOPT_TCP_KEEPALIVE, 1L);
  options.set(CURLOPT_TCP_KEEPIDLE, kKeepaliveIdle);
  options.set(CURLOPT_TCP_KEEPINTVL, kKeepaliveInterval);
  options.set(CURLOPT_MAXLIFETIME_CONN, kConnectionSeconds);
  if (request.longest) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(*request.longest);
    options.set(CURLOPT_TIMEOUT_MS, static_cast<long>(ms.count()));
  }
  TRY(options.result());
  return set_trust(transfer);
}

// For another name in the certificate than in the address, the URL has that name, and libcurl
// connects to the address.
Result<void> HttpClient::set_address(Transfer& transfer, const OutgoingRequest& request) {
  const Access& access = *transfer.access;
  OptionSetter options(transfer.easy.get());
  std::string url = access.server + request.target;
  if (!access.server_name.empty()) {
    const auto [host, port] = host_and_port(access.server);
    const std::size_t begin = access.server.find("://") + 3;
    const std::size_t end = std::min(access.server.find('/', begin), access.server.size());
    url = fmt::format("{}{}:{}{}{}", access.server.substr(0, begin), access.server_name, port,
                      access.server.substr(end), request.target);
    options.append(transfer.connect_to, fmt::format("::{}:{}", host, port));
    options.set(CURLOPT_CONNECT_TO, transfer.connect_to.get());
  }
  options.set(CURLOPT_URL, url.c_str());
  // Of the API server, check_server() admits "http" for this host only.
  options.set(CURLOPT_PROTOCOLS_STR, access.server.starts_with("https://") ? "https" : "http");
  // "a/../b" is a name that a tenant may choose, not a path to simplify.
  options.set(CURLOPT_PATH_AS_IS, 1L);
  return options.result();
}

Result<void> HttpClient::set_trust(Transfer& transfer) {
  const Access& access = *transfer.access;
  OptionSetter options(transfer.easy.get());
  options.set(CURLOPT_SSL_VERIFYPEER, 1L);
  options.set(CURLOPT_SSL_VERIFYHOST, 2L);
  options.set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  // Otherwise a libcurl with this cache keeps the certificates of a file for a day.
  options.prefer(CURLOPT_CA_CACHE_TIMEOUT, 0L);
  const auto blob_of = [](const std::string& text) {
    return curl_blob{const_cast<char*>(text.data()), text.size(), CURL_BLOB_COPY};
  };
  const auto set = [&](const PemSource& pem, CURLoption file, CURLoption text) {
    if (pem.empty()) return;
    curl_blob blob = blob_of(pem.text);
    if (pem.text.empty()) {
      options.set(file, pem.file.c_str());
    } else {
      options.set(text, &blob);
    }
  };
  // The system's directory of authorities would be trusted beside the given one.
  if (!access.ca.empty()) options.set(CURLOPT_CAPATH, nullptr);
  set(access.ca, CURLOPT_CAINFO, CURLOPT_CAINFO_BLOB);
  set(access.client_certificate, CURLOPT_SSLCERT, CURLOPT_SSLCERT_BLOB);
  set(access.client_key, CURLOPT_SSLKEY, CURLOPT_SSLKEY_BLOB);
  return options.result();
}

void HttpClient::cancel(RequestId id) {
  const auto found = transfers_.find(id);
  if (found == transfers_.end()) return;
  curl_multi_remove_handle(handles_->multi.get(), found->second->easy.get());
  transfers_.erase(found);
}

void HttpClient::advance() {
  int running = 0;
  const CURLMcode performed = curl_multi_perform(handles_->multi.get(), &running);
  if (performed != CURLM_OK) failed_ = curl_multi_strerror(performed);
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
          fmt::format("{}: {}", transfer->access->server,
                      printable(has_text ? transfer->problem.data() : curl_easy_strerror(result))));
    }
    transfer->receiver.end(failure);
  }
}

Result<void> HttpClient::wait(std::span<pollfd> others, Duration longest) {
  if (const char* failed = std::exchange(failed_, nullptr)) {
    return error(fmt::format("libcurl: {}", failed));
  }
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
