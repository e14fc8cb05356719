// SPDX-License-Identifier: Apache-2.0
// `forestall status`: requests the status of the running agent over gRPC and prints it. If the
// agent serves no gRPC (apiSocket: ""), the command uses HTTP in its run directory.
#include <errno.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <array>
#include <chrono>
#include <string>

#include "api/json.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "cli/bpf_counter_text.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/table.h"
#include "clients/grpc_call.h"
#include "forestall/v1/service.pb.h"
#include "model/signal.h"

namespace forestall::cli {
namespace {

constexpr const char* kRequest = "GET /status HTTP/1.1\r\nHost: forestall\r\n\r\n";
constexpr std::string_view kEndOfHead = "\r\n\r\n";
// A busy node may delay the agent's server thread.
constexpr Duration kPatience = std::chrono::seconds(5);
constexpr timeval kSocketPatience{5, 0};
// More than any answer: a longer one is not from an agent.
constexpr std::size_t kAnswerMax = std::size_t{16} << 20;

Result<UniqueFd> connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return Error{ENAMETOOLONG, path};
  path.copy(address.sun_path, path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno_error("socket", path);
  for (const int wait : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    setsockopt(fd.get(), SOL_SOCKET, wait, &kSocketPatience, sizeof(kSocketPatience));
  }
  // connect(2) takes all address types as sockaddr.
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return errno_error("connect", path);
  }
  return fd;
}

// Over gRPC.
Result<v1::AgentStatus> ask_api(const std::string& path) {
  clients::GrpcTarget target;
  target.socket = path;
  target.max_reply_bytes = kAnswerMax;
  const clients::GrpcReply reply =
      clients::grpc_call(target, "/forestall.v1.Agent/GetStatus", "", kPatience);
  if (!reply.ok()) {
    // A system error is clear without the gRPC status.
    if (reply.code != 0) return Error{reply.code, reply.message};
    return error(fmt::format("{}: {} ({})", path, reply.message, to_string(reply.status)));
  }
  v1::GetStatusResponse response;
  if (!response.ParseFromString(reply.body)) {
    return error(path + ": the listener is not an agent of this version");
  }
  return std::move(*response.mutable_status());
}

// The body of the HTTP answer.
Result<std::string> ask_http(const std::string& path) {
  const UniqueFd fd = TRY(connect_to(path));
  const std::string_view request = kRequest;
  if (send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) {
    return errno_error("send", path);
  }
  std::string answer;
  std::array<char, 65536> chunk{};
  ssize_t got = 0;
  while ((got = recv(fd.get(), chunk.data(), chunk.size(), 0)) > 0) {
    answer.append(chunk.data(), static_cast<std::size_t>(got));
    if (answer.size() > kAnswerMax) return Error{EFBIG, path};
  }
  if (got < 0) return errno_error("receive", path);
  const auto head = answer.find(kEndOfHead);
  if (!answer.starts_with("HTTP/1.1 200 ") || head == std::string::npos) {
    return error(path + ": the listener is not an agent of this version");
  }
  return answer.substr(head + kEndOfHead.size());
}

std::string word_of(const google::protobuf::EnumDescriptor& words, int value) {
  const auto* found = words.FindValueByNumber(value);
  return found == nullptr ? "unknown" : api::enum_word(*found);
}

std::string span(std::int64_t ns) {
  if (ns < 1'000'000) return fmt::format("{:.1f} us", static_cast<double>(ns) / 1e3);
  if (ns < 1'000'000'000) return fmt::format("{:.1f} ms", static_cast<double>(ns) / 1e6);
  return fmt::format("{:.1f} s", static_cast<double>(ns) / 1e9);
}

std::string amount(const v1::Evidence& evidence, std::int64_t count) {
  const auto signal = parse_signal(evidence.threshold().signal());
  return signal && unit_of(*signal) != Unit::bytes ? fmt::format("{}", count) : human(Bytes{count});
}

void print_head(const v1::AgentStatus& status) {
  fmt::print("forestall {}, pid {}, up {}, Linux {}\n", status.version(), status.pid(),
             span(status.uptime_ns()), status.kernel());
  fmt::print("tier: {}; configuration: {}{}\n",
             word_of(*v1::DoctorReport::Tier_descriptor(), status.tier()), status.config_origin(),
             status.config().dry_run() ? "; dry run: no signals are sent" : "");
  if (!status.has_next_look_in_ns()) {
    fmt::print("no evaluation yet\n");
  } else if (status.next_look_in_ns() < 0) {
    fmt::print("evaluations: {}; the next one is overdue by {}\n", status.looks(),
               span(-status.next_look_in_ns()));
  } else {
    fmt::print("evaluations: {}; the next one in {} at the latest\n", status.looks(),
               span(status.next_look_in_ns()));
  }
  for (const v1::ConditionStatus& each : status.conditions()) {
    if (each.status()) fmt::print("condition: {}\n", each.type());
  }
}

void print_thresholds(const v1::AgentStatus& status) {
  fmt::print("\nThresholds at the last evaluation\n");
  Table table({"signal", "subject", "available", "threshold", ""});
  for (const v1::Evidence& each : status.thresholds()) {
    table.add({each.threshold().signal(), each.subject(), amount(each, each.available()),
               amount(each, each.limit()), each.met() ? "MET" : ""});
  }
  table.print();
  if (status.thresholds_left_out() > 0) {
    fmt::print("  and {} more\n", status.thresholds_left_out());
  }
}

std::string stages_of(const v1::StatusDecision& decision) {
  std::string text;
  for (const v1::StageLength& each : decision.stages()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", each.stage(), span(each.length_ns()));
  }
  return text;
}

void print_decisions(const v1::AgentStatus& status) {
  if (status.decisions_size() == 0) return;
  fmt::print("\nLatest records\n");
  Table table({"record", "action", "reason", "victim", "state", "stages"});
  for (const v1::StatusDecision& each : status.decisions()) {
    const std::string action = each.by_kernel()
                                   ? "kernel-oom-kill"
                                   : word_of(*v1::Decision::Action_descriptor(), each.action());
    const std::string state =
        each.has_state() ? word_of(*v1::KillProgress::State_descriptor(), each.state()) : "";
    table.add({fmt::format("{}", each.sequence()), action,
               word_of(*v1::Decision::Reason_descriptor(), each.reason()), each.victim(),
               each.dry_run() ? state + " (dry run)" : state, stages_of(each)});
  }
  table.print();
}

void print_stages(const v1::AgentStatus& status) {
  fmt::print("\nStages of all kills so far\n");
  Table table({"stage", "kills", "p50", "p90", "p99", "max"});
  for (const v1::StageSummary& each : status.stages()) {
    if (each.count() == 0) {
      table.add({each.stage(), "0", "-", "-", "-", "-"});
      continue;
    }
    table.add({each.stage(), fmt::format("{}", each.count()), span(each.p50_ns()),
               span(each.p90_ns()), span(each.p99_ns()), span(each.max_ns())});
  }
  table.print();
  const v1::Drops& drops = status.drops();
  fmt::print(
      "\nlost: {} lines of the log, {} BPF events, {} late OOM events, {} entries of recordings; "
      "BPF "
      "failures: {}\n",
      drops.log_lines(), drops.bpf_events(), drops.late_tellings(), drops.recording_entries(),
      drops.bpf_failures());
  fmt::print("dropped: {} slow readers, {} viewers of the status page, {} messages to watchers\n",
             drops.slow_readers(), drops.live_viewers(), drops.watch_messages());
  fmt::print("{}", bpf_counter_text(status.bpf_counters()));
}

bool nobody_listens(const Error& failure) {
  return failure.code == ENOENT || failure.code == ECONNREFUSED;
}

// An agent whose gRPC socket is elsewhere or disabled still answers in its run directory.
Result<v1::AgentStatus> ask(const Options& options) {
  const std::string path = api_socket(options);
  auto status = ask_api(path);
  if (status.ok() || !nobody_listens(status.error()) || !options.socket.empty()) return status;
  const std::string other = status_socket(options);
  const auto body = ask_http(other);
  // The HTTP socket always exists, so its error is the useful one.
  if (!body) return body.error();
  fmt::print(stderr,
             "forestall status: no gRPC at {} (the agent's apiSocket is elsewhere, or empty); "
             "used {}\n",
             path, other);
  v1::AgentStatus read;
  TRY(api::from_json(*body, read));
  return read;
}

}  // namespace

int run_status(const Options& options) {
  const auto status = ask(options);
  if (!status) {
    fmt::print(stderr, "forestall status: {}{}\n",
               nobody_listens(status.error()) ? "no agent is running: " : "",
               status.error().text());
    return kExitFailed;
  }
  if (options.output == OutputFormat::json) {
    fmt::print("{}", api::to_json(*status, api::JsonStyle::pretty));
    return kExitOk;
  }
  print_head(*status);
  print_thresholds(*status);
  print_decisions(*status);
  print_stages(*status);
  return kExitOk;
}

}  // namespace forestall::cli
