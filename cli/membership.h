#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/first_config.h"
#include "cli/options.h"
#include "common/base/config_loader.h"
#include "common/base/host_port.h"
#include "common/base/result.h"
#include "common/trust/join_token.h"
#include "common/trust/tls.h"
#include "common/trust/trust_folder.h"

namespace forebay {

/// FOREBAY_TRUST_DIR, else where the daemons look.
std::string TrustDirOfEnvironment();

/// As whom `forebay` asks, by the certificates in that folder: as an administrator, unless there is
/// a viewer's and no administrator's.
proto::Role RoleOfCommand(const TrustFolder& folder);

/// `--trust-dir`, else FOREBAY_TRUST_DIR; "" where neither names a folder.
void DeclareTrustDir(Options& options, std::string& out);

/// This machine's name as a member's id: what of the host's name fits; "" when nothing does.
std::string HostAsId();

/// A loopback address with this host's name instead: what other machines may be told.
std::string AsOthersReach(const std::string& address);

/// Asks the coordinator at `address` for a certificate with `token` and answers what to keep; the
/// key is made here. `role` "" = the token's. Changes nothing on this machine. kInvalid: a wrong
/// clock, id or role; kDenied: the token is not good, or that is another cluster, also than `kept`.
Result<MemberProof> Join(const std::string& address, const JoinToken& token,
                         const std::string& role, const std::string& id,
                         const std::optional<TlsContext::KeptCluster>& kept = std::nullopt);

/// The packages' folder for what this machine is as `role`: for a node it is one of its own, where
/// this is root and the node's user is on this machine.
std::string PackagesTrustDir(proto::Role role);

/// Where what this machine is as `role` belongs: `named`, else what [trust] dir of the file
/// `config` names to the programs that read that, else PackagesTrustDir.
std::string TrustDirOf(proto::Role role, const std::string& named,
                       const std::string& config = kDefaultConfigFile);

/// Where the folder is one of the packages' services, root's so far, and the user of the one that
/// is `role` is on this machine: all that is in it belongs to that user from now on, who renews it.
/// kInternal.
Status GiveToServices(proto::Role role, const std::string& trust_dir);

/// By which name or address others reach this machine, where they reach the coordinator by
/// `coordinator`: the local address on the way there, or on its own machine the host that is named.
/// "" when that is loopback: nobody else does. kUnavailable: there is no such way.
Result<std::string> HostForOthers(const std::string& coordinator);

/// Whether `advertise`, what was given for --advertise, is an address that others can use.
/// kInvalid.
Status CheckAdvertised(const std::string& advertise);

/// All addresses of this machine, with the port of the one that others use; a loopback address is
/// that alone.
std::string AllAddresses(const HostPort& advertised);

// What forebay.toml must say, beside the defaults, so that a machine's program finds and is found.
// `config` is the daemons' file: a [trust] dir of its own holds for them.
/// Of a member: for a client the coordinator, for a node also its own address, `advertise` ("" =
/// the default, loopback); for an administrator and a viewer nothing.
std::vector<SettingGroup> MemberSettings(const std::string& trust_dir, proto::Role role,
                                         const std::string& coordinator,
                                         const std::string& advertise,
                                         const std::string& config = kDefaultConfigFile);
/// Of a coordinator; nothing where its address is a loopback one.
std::vector<SettingGroup> CoordinatorSettings(const std::string& trust_dir,
                                              const HostPort& advertise,
                                              const std::string& config = kDefaultConfigFile);

/// Adds what `wanted` has and the file lacks to `forebay.toml` beside the trust folder: the one
/// that the daemons read, where the folder is theirs. `verb` did it. What cannot be written undoes
/// nothing: it is said on the console.
CompletedConfig Configure(const Console& console, const std::string& trust_dir,
                          const std::vector<SettingGroup>& wanted, const std::string& verb);

/// As the member "config" of a document: its path, or null where nothing was added.
boost::json::value ConfigMember(const CompletedConfig& config);

}  // namespace forebay
