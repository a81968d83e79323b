# What `cmake --install` puts where, and the Debian packages that `cpack` makes of it: forebay (coordinator and node),
# forebay-client (the mount), and forebay-cli (the command and the configuration), which both need: with it a machine joins.
# docs/DEPLOY.md tells how they are used.
include(GNUInstallDirs)

set(completions ${CMAKE_BINARY_DIR}/share/completions)
foreach(shell bash zsh fish)
  add_custom_command(OUTPUT ${completions}/${shell}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${completions}
    COMMAND forebay completion ${shell} > ${completions}/${shell}
    DEPENDS forebay VERBATIM)
endforeach()
add_custom_target(completions ALL DEPENDS ${completions}/bash ${completions}/zsh ${completions}/fish)

install(TARGETS forebay RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
install(TARGETS forebay-coordinator forebay-node RUNTIME DESTINATION ${CMAKE_INSTALL_SBINDIR} COMPONENT server)
install(FILES ${completions}/bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME forebay
        COMPONENT command)
install(FILES ${completions}/zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _forebay
        COMPONENT command)
install(FILES ${completions}/fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME forebay.fish
        COMPONENT command)
set(manual ${CMAKE_BINARY_DIR}/share/man)
install(FILES ${manual}/man1/forebay.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command)
install(FILES ${manual}/man5/forebay.toml.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 COMPONENT command)
install(FILES ${manual}/man8/forebay-coordinator.8 ${manual}/man8/forebay-node.8
        DESTINATION ${CMAKE_INSTALL_MANDIR}/man8 COMPONENT server)
install(FILES ops/systemd/forebay-coordinator.service ops/systemd/forebay-node.service
        DESTINATION lib/systemd/system COMPONENT server)
install(PROGRAMS ops/systemd/share-secret DESTINATION lib/forebay COMPONENT server)
install(FILES ops/iam-policy.json DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT server)

install(TARGETS forebay-mount RUNTIME DESTINATION ${CMAKE_INSTALL_SBINDIR} COMPONENT client)
# mount(8) looks for it in /sbin, which is /usr/sbin.
install(FILES ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/mount.forebay DESTINATION ${CMAKE_INSTALL_SBINDIR} COMPONENT client)
install(FILES ${manual}/man8/forebay-mount.8 ${manual}/man8/mount.forebay.8
        DESTINATION ${CMAKE_INSTALL_MANDIR}/man8 COMPONENT client)
install(FILES ops/systemd/forebay-mount@.service DESTINATION lib/systemd/system COMPONENT client)
# A package is for the release that it is built on; systemd of Debian 12 would complain of a call that it does not know.
cmake_host_system_information(RESULT release QUERY DISTRIB_INFO)
if(release_ID STREQUAL "debian" AND release_VERSION_ID VERSION_GREATER_EQUAL 13)
  install(FILES ops/systemd/forebay-mount-cachestat.conf DESTINATION lib/systemd/system/forebay-mount@.service.d
          RENAME cachestat.conf COMPONENT client)
endif()

# Only a package writes to /etc: an install from the tree must not overwrite what an administrator wrote there.
install(FILES ops/debian/forebay.toml DESTINATION /etc/forebay COMPONENT config EXCLUDE_FROM_ALL)
install(FILES ops/debian/aws-credentials DESTINATION /etc/forebay PERMISSIONS OWNER_READ OWNER_WRITE
        COMPONENT credentials EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_CONTACT "The Forebay developers <forebay@localhost>")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENTS_ALL command config server credentials client)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION TRUE)

# dpkg wants the files under these names, so each package has a folder of them.
set(control ${CMAKE_BINARY_DIR}/debian)
configure_file(ops/debian/cli-postrm ${control}/cli/postrm COPYONLY)
configure_file(ops/debian/cli-conffiles ${control}/cli/conffiles COPYONLY)
configure_file(ops/debian/client-postinst ${control}/client/postinst COPYONLY)
configure_file(ops/debian/client-prerm ${control}/client/prerm COPYONLY)
configure_file(ops/debian/client-postrm ${control}/client/postrm COPYONLY)

set(CPACK_DEBIAN_CLI_PACKAGE_NAME forebay-cli)
set(CPACK_DEBIAN_CLI_DESCRIPTION "Distributed read cache between S3 and training jobs: the command
 The forebay command, with which machines join a cluster and which links, preloads
 and shows what is cached, and the configuration of the programs of a machine.")
# What was in the package forebay before.
set(CPACK_DEBIAN_CLI_PACKAGE_BREAKS "forebay (<< ${PROJECT_VERSION})")
set(CPACK_DEBIAN_CLI_PACKAGE_REPLACES "forebay (<= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_CLI_PACKAGE_CONTROL_EXTRA "${control}/cli/postrm;${control}/cli/conffiles")

set(CPACK_DEBIAN_FOREBAY_PACKAGE_NAME forebay)
set(CPACK_DEBIAN_FOREBAY_DESCRIPTION "Distributed read cache between S3 and training jobs
 The coordinator and the cache node. Cache nodes pool the disks of the training
 machines into one store that reads each S3 object once.")
set(CPACK_DEBIAN_FOREBAY_PACKAGE_DEPENDS "adduser, forebay-cli (>= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_FOREBAY_PACKAGE_RECOMMENDS "ca-certificates")
set(CPACK_DEBIAN_FOREBAY_PACKAGE_CONTROL_EXTRA
  ${CMAKE_SOURCE_DIR}/ops/debian/postinst;${CMAKE_SOURCE_DIR}/ops/debian/prerm
  ${CMAKE_SOURCE_DIR}/ops/debian/postrm;${CMAKE_SOURCE_DIR}/ops/debian/conffiles)

set(CPACK_DEBIAN_CLIENT_PACKAGE_NAME forebay-client)
set(CPACK_DEBIAN_CLIENT_DESCRIPTION "Distributed read cache between S3 and training jobs: the mount
 Mounts a linked S3 prefix read-only, through the cache nodes of a cluster.
 Needs no S3 credentials.")
set(CPACK_DEBIAN_CLIENT_PACKAGE_DEPENDS "fuse3, forebay-cli (>= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_CLIENT_PACKAGE_CONTROL_EXTRA
  ${control}/client/postinst;${control}/client/prerm;${control}/client/postrm)

include(CPack)
cpack_add_component_group(cli)
cpack_add_component(command GROUP cli)
cpack_add_component(config GROUP cli)
cpack_add_component_group(forebay)
cpack_add_component(server GROUP forebay)
cpack_add_component(credentials GROUP forebay)
cpack_add_component_group(client)
cpack_add_component(client GROUP client)
