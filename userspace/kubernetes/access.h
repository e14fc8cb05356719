// SPDX-License-Identifier: Apache-2.0
// Where the API server is, how it is recognized, and what a client shows it: of a service account
// in a pod, or of a kubeconfig file.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace forestall::kubernetes {

// A PEM object in a file, which is read again when it is used, or as text; neither: not given.
struct PemSource {
  std::string file;
  std::string text;

  [[nodiscard]] bool empty() const { return file.empty() && text.empty(); }
  friend bool operator==(const PemSource&, const PemSource&) = default;
};

struct Access {
  std::string server;       // "https://10.96.0.1:443", perhaps with a path; no slash at its end
  std::string server_name;  // of the certificate; empty: the host of `server`
  PemSource ca;             // empty: the certificate authorities of the system
  std::string token_file;   // empty: `token`, which may be empty too
  std::string token;
  PemSource client_certificate;
  PemSource client_key;
  std::string pod_namespace;  // of the kubeconfig's context; empty: not given

  friend bool operator==(const Access&, const Access&) = default;
};

inline constexpr std::string_view kServiceAccountDirectory =
    "/var/run/secrets/kubernetes.io/serviceaccount";

// `host` and `port` are the values of KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT.
[[nodiscard]] Result<Access> in_cluster_access(
    std::string_view host, std::string_view port,
    std::string_view directory = kServiceAccountDirectory);

// A kubeconfig; `context` empty: its current-context. Paths in it are relative to its directory.
// Refuses what it would have to ignore: programs that print credentials, passwords, proxies,
// servers without verification.
[[nodiscard]] Result<Access> read_kubeconfig(const std::string& path, std::string_view context);
[[nodiscard]] Result<Access> parse_kubeconfig(std::string_view yaml, const std::string& directory,
                                              std::string_view context);

// Whether the text is SCHEME://HOST, perhaps with a port and a path, and has no credentials, query
// or fragment.
[[nodiscard]] bool is_plain_url(std::string_view server);
// Whether what is sent there leaves this host without encryption.
[[nodiscard]] bool sends_in_clear(std::string_view server);

// The bearer token to show now; empty: none. A file is read each time, because the kubelet replaces
// it before it expires.
[[nodiscard]] Result<std::string> current_token(const Access& access);

}  // namespace forestall::kubernetes
