// SPDX-License-Identifier: Apache-2.0
#include "cluster/tls_pages.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/stat.h>

#include <cerrno>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace forestall::cluster {
namespace {

struct FreeConnection {
  void operator()(SSL* connection) const { SSL_free(connection); }
};
using Connection = std::unique_ptr<SSL, FreeConnection>;

// What changes if a file is written or replaced.
using FileState = std::tuple<dev_t, ino_t, off_t, std::int64_t, std::int64_t>;
FileState file_state_of(const std::string& file) {
  struct stat state {};
  if (file.empty() || ::stat(file.c_str(), &state) != 0) return {};
  return {state.st_dev, state.st_ino, state.st_size, state.st_mtim.tv_sec, state.st_mtim.tv_nsec};
}

std::vector<FileState> file_states(const TlsOptions& options) {
  std::vector<FileState> states{file_state_of(options.certificate), file_state_of(options.key)};
  for (const std::string& each : options.sni) {
    const auto files = parse_named_certificate(each);
    if (!files) continue;
    states.push_back(file_state_of(files->certificate));
    states.push_back(file_state_of(files->key));
  }
  return states;
}

class TlsTransport final : public exports::HttpTransport {
 public:
  TlsTransport(Connection connection, std::shared_ptr<const TlsContexts> contexts)
      : contexts_(std::move(contexts)), connection_(std::move(connection)) {}

  ssize_t receive(std::span<char> out) override {
    ERR_clear_error();
    std::size_t count = 0;
    const int ok = SSL_read_ex(connection_.get(), out.data(), out.size(), &count);
    return ok == 1 ? done(count) : failed(ok);
  }
  ssize_t send(std::string_view bytes) override {
    ERR_clear_error();
    std::size_t count = 0;
    const int ok = SSL_write_ex(connection_.get(), bytes.data(), bytes.size(), &count);
    return ok == 1 ? done(count) : failed(ok);
  }
  short awaits() const override { return awaits_; }
  bool has_buffered() const override { return SSL_pending(connection_.get()) > 0; }
  void finish() override {
    // If it cannot be sent now, the end of the connection follows anyhow.
    (void)SSL_shutdown(connection_.get());
    ERR_clear_error();
    awaits_ = POLLIN;
  }

 private:
  ssize_t done(std::size_t count) {
    awaits_ = 0;
    return static_cast<ssize_t>(count);
  }
  ssize_t failed(int result) {
    const int why = SSL_get_error(connection_.get(), result);
    ERR_clear_error();
    if (why == SSL_ERROR_ZERO_RETURN) return 0;
    awaits_ = why == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN;
    errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : EPROTO;
    return -1;
  }

  const std::shared_ptr<const TlsContexts> contexts_;  // used by the handshake
  const Connection connection_;
  short awaits_ = 0;
};

}  // namespace

struct TlsPages::Parts {
  std::shared_ptr<const TlsContexts> contexts;
  std::vector<FileState> files;
  std::optional<MonotonicTime> checked;
  std::string problem;  // as last reported
};

TlsPages::TlsPages(TlsOptions options, Report report, std::unique_ptr<Parts> parts)
    : options_(std::move(options)), report_(std::move(report)), parts_(std::move(parts)) {}
TlsPages::~TlsPages() = default;

Result<std::shared_ptr<TlsPages>> TlsPages::create(TlsOptions options, Report report) {
  auto parts = std::make_unique<Parts>();
  parts->files = file_states(options);
  parts->contexts = TRY(TlsContexts::create(options));
  return std::shared_ptr<TlsPages>(
      new TlsPages(std::move(options), std::move(report), std::move(parts)));
}

// Files that do not belong together may be in the middle of a replacement: the next check reads
// them again.
void TlsPages::reload(MonotonicTime now) {
  if (options_.certificate.empty() && options_.sni.empty()) return;
  if (parts_->checked && now - *parts_->checked < kCheckInterval) return;
  parts_->checked = now;
  std::vector<FileState> files = file_states(options_);
  std::string problem;
  if (files != parts_->files) {
    auto contexts = TlsContexts::create(options_);
    if (contexts) {
      parts_->contexts = *std::move(contexts);
      parts_->files = std::move(files);
    } else {
      problem = contexts.error().text();
    }
  }
  if (problem == parts_->problem) return;
  parts_->problem = problem;
  if (report_) report_(problem);
}

std::unique_ptr<exports::HttpTransport> TlsPages::transport(int fd, MonotonicTime now) {
  reload(now);
  Connection connection(SSL_new(&parts_->contexts->first()));
  if (!connection || SSL_set_fd(connection.get(), fd) != 1) return nullptr;
  SSL_set_accept_state(connection.get());
  return std::make_unique<TlsTransport>(std::move(connection), parts_->contexts);
}

}  // namespace forestall::cluster
