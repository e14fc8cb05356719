// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/access.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/parse.h"
#include "base/unique_fd.h"
#include "kubernetes/base64.h"
#include "text/json_value.h"
#include "text/yaml_json.h"
#include "text/yaml_tree.h"

namespace forestall::kubernetes {
namespace {

constexpr std::size_t kTokenBytesMax = std::size_t{64} << 10;

Result<std::string> read_file(const std::string& path, std::size_t bytes_max) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return errno_error("open", path);
  std::string text;
  std::array<char, 8192> piece{};
  for (;;) {
    const ssize_t size = ::read(file.get(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return errno_error("read", path);
    if (size == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(size));
    if (text.size() > bytes_max) {
      return error(fmt::format("{} has more than {} bytes", path, bytes_max));
    }
  }
}

// A token becomes part of a header: no blanks, no line ends. RFC 6750 §2.1 allows fewer characters.
bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

Result<void> check_server(std::string_view server) {
  if (!is_plain_url(server)) {
    return error(
        fmt::format("server '{}' is not a plain URL such as https://10.0.0.1:6443", server));
  }
  if (server.starts_with("https://") ||
      (server.starts_with("http://") && !sends_in_clear(server))) {
    return {};
  }
  return error(fmt::format("server '{}': expected https://, or http:// on this host", server));
}

// Calls visit(body) -> Result<void> with the member `member` of the entry of `list` whose name is
// `name`.
template <typename Visit>
Result<void> visit_named(const text::JsonValue& root, std::string_view list,
                         std::string_view member, std::string_view name, Visit visit) {
  bool found = false;
  const auto each = [&](const text::JsonValue& entry) -> Result<void> {
    if (found || TRY(entry.text("name")) != name) return {};
    found = true;
    const text::JsonValue body = TRY(entry.at(member));
    return visit(body);
  };
  TRY(root.each_in(list, each));
  if (!found) return error(fmt::format("{} has no entry named '{}'", list, name));
  return {};
}

// Refuses `keys` that are set: the connection would be another one than the file describes.
Result<void> refuse(const text::JsonValue& object, std::string_view where,
                    const std::vector<std::string_view>& keys) {
  for (const std::string_view key : keys) {
    const auto value = TRY(object.find(key));
    if (!value) continue;
    const auto truth = value->boolean();
    if (truth && !*truth) continue;
    const auto text = value->string();
    if (text && text->empty()) continue;
    return error(fmt::format("{}: '{}' is not supported", where, key));
  }
  return {};
}

class Kubeconfig {
 public:
  explicit Kubeconfig(const std::string& directory) : directory_(directory) {}

  Result<Access> read(const text::JsonValue& root, std::string_view context) {
    std::string name(context);
    if (name.empty()) name = TRY(root.text("current-context"));
    if (name.empty()) return error("'current-context' is missing, and no context was named");
    std::string cluster;
    std::string user;
    const auto read_context = [&](const text::JsonValue& body) -> Result<void> {
      cluster = TRY(body.text("cluster"));
      user = TRY(body.text("user"));
      access_.pod_namespace = TRY(body.text("namespace"));
      return {};
    };
    TRY(visit_named(root, "contexts", "context", name, read_context));
    TRY(visit_named(root, "clusters", "cluster", cluster,
                    [&](const text::JsonValue& body) { return read_cluster(body, cluster); }));
    // Without a user there are no credentials, as `kubectl proxy` needs it.
    if (user.empty()) return access_;
    TRY(visit_named(root, "users", "user", user,
                    [&](const text::JsonValue& body) { return read_user(body, user); }));
    return access_;
  }

 private:
  Result<void> read_cluster(const text::JsonValue& cluster, const std::string& name) {
    TRY(refuse(cluster, "cluster " + name, {"insecure-skip-tls-verify", "proxy-url"}));
    access_.server = TRY(cluster.text("server"));
    TRY(check_server(access_.server));
    while (access_.server.ends_with('/')) access_.server.pop_back();
    access_.server_name = TRY(cluster.text("tls-server-name"));
    access_.ca = TRY(pem(cluster, "certificate-authority"));
    return {};
  }

  Result<void> read_user(const text::JsonValue& user, const std::string& name) {
    TRY(refuse(user, "user " + name,
               {"exec", "auth-provider", "username", "password", "as", "as-uid", "as-groups",
                "as-user-extra"}));
    access_.token = TRY(user.text("token"));
    if (!access_.token.empty() && !is_token(access_.token)) {
      return error(fmt::format("user {}: 'token' has blanks or control characters", name));
    }
    const std::string token_file = TRY(user.text("tokenFile"));
    access_.token_file = relative(token_file);
    access_.client_certificate = TRY(pem(user, "client-certificate"));
    access_.client_key = TRY(pem(user, "client-key"));
    if (access_.client_certificate.empty() != access_.client_key.empty()) {
      return error(fmt::format("user {}: client-certificate and client-key need each other", name));
    }
    return {};
  }

  // KEY-data comes before KEY.
  Result<PemSource> pem(const text::JsonValue& object, std::string_view key) {
    const std::string encoded = TRY(object.text(fmt::format("{}-data", key)));
    if (encoded.empty()) return PemSource{relative(TRY(object.text(key))), ""};
    auto decoded = decode_base64(encoded);
    if (!decoded || decoded->find("-----BEGIN ") == std::string::npos) {
      return error(fmt::format("'{}-data' is not PEM in base64", key));
    }
    return PemSource{"", *std::move(decoded)};
  }

  [[nodiscard]] std::string relative(const std::string& path) const {
    if (path.empty() || path.front() == '/' || directory_.empty()) return path;
    return directory_ + '/' + path;
  }

  const std::string directory_;
  Access access_;
};

}  // namespace

bool is_plain_url(std::string_view server) {
  const bool printable = std::ranges::all_of(server, [](char c) { return c > ' ' && c < '\x7f'; });
  if (!printable || server.find_first_of("@?#\\\"") != std::string_view::npos) return false;
  const std::size_t scheme = server.find("://");
  return scheme != std::string_view::npos && scheme > 0 && server.size() > scheme + 3;
}

// Credentials in the clear stay on this host, as with `kubectl proxy`.
bool sends_in_clear(std::string_view server) {
  if (!server.starts_with("http://")) return false;
  for (const std::string_view local : {"http://127.0.0.1", "http://[::1]", "http://localhost"}) {
    if (!server.starts_with(local)) continue;
    const std::string_view rest = server.substr(local.size());
    if (rest.empty() || rest.front() == ':' || rest.front() == '/') return false;
  }
  return true;
}

Result<Access> in_cluster_access(std::string_view host, std::string_view port,
                                 std::string_view directory) {
  if (host.empty() || port.empty()) {
    return error(
        "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is no pod of a "
        "cluster; use --kubeconfig");
  }
  const auto number = parse_u64(port);
  if (!number || *number == 0 || *number > 65535) {
    return error(fmt::format("KUBERNETES_SERVICE_PORT is not a port: '{}'", port));
  }
  Access access;
  const bool v6 = host.find(':') != std::string_view::npos && !host.starts_with('[');
  access.server = fmt::format("https://{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", *number);
  TRY(check_server(access.server));
  access.ca.file = fmt::format("{}/ca.crt", directory);
  access.token_file = fmt::format("{}/token", directory);
  return access;
}

Result<Access> parse_kubeconfig(std::string_view yaml, const std::string& directory,
                                std::string_view context) {
  std::vector<text::Diagnostic> problems;
  const auto tree = text::parse_yaml(yaml, problems, text::RepeatedKeys::replace);
  if (!problems.empty()) {
    const text::Diagnostic& first = problems.front();
    return error(fmt::format("{}:{}: {}", first.at.line, first.at.column, first.message));
  }
  if (!tree) return error("not YAML");
  const text::JsonDocument document = TRY(text::JsonDocument::parse(text::to_json(*tree)));
  return Kubeconfig(directory).read(document.root(), context);
}

Result<Access> read_kubeconfig(const std::string& path, std::string_view context) {
  const std::string text = TRY(read_file(path, text::kYamlBytesMax));
  const std::size_t slash = path.rfind('/');
  const std::string directory =
      slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
  Result<Access> access = parse_kubeconfig(text, directory, context);
  return access ? access : access.error().in(path);
}

Result<std::string> current_token(const Access& access) {
  if (access.token_file.empty()) return access.token;
  const std::string text = TRY(read_file(access.token_file, kTokenBytesMax));
  const std::string_view token = trim(text);
  if (!is_token(token)) return error(access.token_file + " is not a token");
  return std::string(token);
}

}  // namespace forestall::kubernetes
